"""PredNet, Chainer family, written down gate by gate and input by input, to compare the fused model with. Slow.

Every convolution of the original is one here, with the original's names: per LSTM x_i0, x_f0, x_c0, x_o0 (of E),
x_i1 ... (of the upsampled R), h_i ... with bias, and peepholes c_i, c_f, c_o. A convolution is a sum over nine taps,
pooling and upsampling are reshapes: nothing is shared with the model under test but autograd's elementary operations.
"""

import torch

GATES = ("i", "f", "o", "c")  # the order of the fused weight's output channels


def conv(x, weight, bias=None):
    height, width = x.shape[-2:]
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    out = 0
    for row in range(3):
        for column in range(3):
            patch = padded[:, :, row : row + height, column : column + width]
            out = out + torch.einsum("oi,bihw->bohw", weight[:, :, row, column], patch)
    return out if bias is None else out + bias[None, :, None, None]


def pool(x):
    b, c, h, w = x.shape
    blocks = x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 2, 4, 3, 5).reshape(b, c, h // 2, w // 2, 4)
    return blocks.max(dim=-1).values


def upsample(x):
    return x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)


def pieces(model, of=lambda parameter: parameter):
    """Name -> the slice of the fused model's parameters (or of their gradients) that is one original parameter."""
    out = {}
    layers = len(model.shapes)
    for layer in range(layers):
        lstm, channels = model.lstm[layer], model.shapes[layer][0]
        parts = [2 * channels] + ([model.shapes[layer + 1][0]] if layer < layers - 1 else []) + [channels]
        for number, gate in enumerate(GATES):
            rows = slice(number * channels, (number + 1) * channels)
            split = of(lstm.weight)[rows].split(parts, dim=1)
            for nth, weight in enumerate(split[:-1]):
                out[f"lstm{layer}.x_{gate}{nth}.W"] = weight
            out[f"lstm{layer}.h_{gate}.W"] = split[-1]
            out[f"lstm{layer}.h_{gate}.b"] = of(lstm.bias)[rows]
            if gate != "c":
                out[f"lstm{layer}.c_{gate}.W"] = of(lstm.peephole)[:, number]
        out[f"ConvP{layer}.W"] = of(model.conv_p[layer].weight)
        out[f"ConvP{layer}.b"] = of(model.conv_p[layer].bias)
        if layer:
            out[f"ConvA{layer}.W"] = of(model.conv_a[layer - 1].weight)
            out[f"ConvA{layer}.b"] = of(model.conv_a[layer - 1].bias)
    return out


class Literal:
    def __init__(self, model, fault=None):
        self.shapes = model.shapes
        self.fault = fault  # a deliberate deviation, to show that the comparison would see it
        self.load(model)

    def load(self, model):
        self.w = {name: part.detach().clone().requires_grad_() for name, part in pieces(model).items()}

    def start(self, batch):
        zeros = [torch.zeros((batch, *shape), dtype=torch.float64) for shape in self.shapes]
        self.P, self.c, self.h, self.old = list(zeros), list(zeros), list(zeros), {}

    def lstm(self, layer, inputs):
        def pre(gate):
            out = conv(self.h[layer], self.w[f"lstm{layer}.h_{gate}.W"], self.w[f"lstm{layer}.h_{gate}.b"])
            for nth, x in enumerate(inputs):
                out = out + conv(x, self.w[f"lstm{layer}.x_{gate}{nth}.W"])
            return out

        c_old = self.c[layer]
        i = torch.sigmoid(pre("i") + self.w[f"lstm{layer}.c_i.W"] * c_old)
        f = torch.sigmoid(pre("f") + self.w[f"lstm{layer}.c_f.W"] * c_old)
        c_new = torch.tanh(pre("c")) * i + f * c_old
        seen = c_new if self.fault == "output gate sees the new c" else c_old
        o = torch.sigmoid(pre("o") + self.w[f"lstm{layer}.c_o.W"] * seen)
        self.c[layer], self.h[layer] = c_new, o * torch.tanh(c_new)

    def step(self, x):
        layers = len(self.shapes)
        E = [None] * layers
        for layer in range(layers):
            A = (
                x
                if layer == 0
                else pool(torch.relu(conv(E[layer - 1], self.w[f"ConvA{layer}.W"], self.w[f"ConvA{layer}.b"])))
            )
            P = self.P[layer]
            E[layer] = torch.cat((torch.relu(A - P), torch.relu(P - A)), dim=1)
        for layer in reversed(range(layers)):
            self.lstm(layer, [E[layer]] if layer == layers - 1 else [E[layer], upsample(self.h[layer + 1])])
            self.P[layer] = self.predict(layer, self.w[f"ConvP{layer}.W"], self.w[f"ConvP{layer}.b"])
        return self.P[0]

    def predict(self, layer, weight, bias):
        P = torch.relu(conv(self.h[layer], weight, bias))
        return P if layer else torch.minimum(P, torch.ones_like(P))

    def window(self, frames, truncation):
        """Loss per frame of one window and its gradients, one per original parameter; then cut the graph."""
        loss, frame_losses = 0, []
        for t in range(len(frames) - 1):
            difference = self.step(frames[t]) - frames[t + 1]
            frame_losses.append((difference * difference).sum() / difference.numel())
            loss = loss + frame_losses[-1]
        loss = loss / len(frame_losses)
        loss.backward()
        gradients = {name: p.grad.clone() for name, p in self.w.items()}
        for name, copy in self.old.items():  # a share that flows into the weights of the window before
            gradients[name] = gradients[name] + copy.grad
        self.cut(truncation)
        return loss.item(), [one.item() for one in frame_losses], gradients

    def cut(self, truncation):
        """What loss.unchain_backward() leaves: c, h, P_0 are leaves; P_l keeps relu and ConvP_l of the old weights."""
        self.c, self.h = [c.detach() for c in self.c], [h.detach() for h in self.h]
        self.P, self.old = [P.detach() for P in self.P], {}
        if truncation == "unchain":
            for layer in range(1, len(self.shapes)):
                names = f"ConvP{layer}.W", f"ConvP{layer}.b"
                self.old |= {name: self.w[name].detach().clone().requires_grad_() for name in names}
                self.P[layer] = self.predict(layer, *(self.old[name] for name in names))
