"""PredNet, Keras family, written down gate by gate and input by input, to compare the fused model with. Slow.

The steps and their order are those of coxlab/prednet's ``step``, with its names: convolutions i, f, c, o, ahat and a
per layer. A convolution is a sum over nine taps, pooling and upsampling are reshapes, the clip is minimum and maximum.
"""

import torch
from literal_prednet import conv, pool, upsample

GATES = ("i", "f", "o", "c")  # the order of the fused weight's output channels


def hard_sigmoid(z):
    return torch.minimum(torch.maximum(z / 5 + 0.5, torch.zeros_like(z)), torch.ones_like(z))


def pieces(model, of=lambda parameter: parameter):
    """Name -> the slice of the fused model's parameters (or of their gradients) that is one original parameter.

    An original gate's weight is split further, by input: R, E, and the upsampled R of the layer above.
    """
    out, layers = {}, len(model.shapes)
    for layer in range(layers):
        lstm, channels = model.lstm[layer], model.shapes[layer][0]
        parts = [channels, 2 * channels] + ([model.shapes[layer + 1][0]] if layer < layers - 1 else [])
        for number, gate in enumerate(GATES):
            rows = slice(number * channels, (number + 1) * channels)
            for name, weight in zip(("R", "E", "up"), of(lstm.weight)[rows].split(parts, dim=1), strict=False):
                out[f"{gate}{layer}.{name}.W"] = weight
            out[f"{gate}{layer}.b"] = of(lstm.bias)[rows]
        out[f"ahat{layer}.W"] = of(model.conv_ahat[layer].weight)
        out[f"ahat{layer}.b"] = of(model.conv_ahat[layer].bias)
        if layer < layers - 1:
            out[f"a{layer}.W"] = of(model.conv_a[layer].weight)
            out[f"a{layer}.b"] = of(model.conv_a[layer].bias)
    return out


class Literal:
    def __init__(self, model, gate=hard_sigmoid, bottom_up_first=False):
        self.shapes, self.gate, self.bottom_up_first = model.shapes, gate, bottom_up_first
        self.w = {name: part.detach().clone().requires_grad_() for name, part in pieces(model).items()}

    def top_down(self):
        """R_l from R_{t-1}, E_{t-1} and this step's R_{l+1}."""
        layers = len(self.shapes)
        r, c = [None] * layers, [None] * layers
        for layer in reversed(range(layers)):

            def pre(gate, layer=layer):
                out = conv(self.r[layer], self.w[f"{gate}{layer}.R.W"], self.w[f"{gate}{layer}.b"])
                out = out + conv(self.e[layer], self.w[f"{gate}{layer}.E.W"])
                if layer < layers - 1:
                    out = out + conv(upsample(r[layer + 1]), self.w[f"{gate}{layer}.up.W"])
                return out

            i, f, o = (self.gate(pre(gate)) for gate in "ifo")
            c[layer] = f * self.c[layer] + i * torch.tanh(pre("c"))
            r[layer] = o * torch.tanh(c[layer])
        self.r, self.c = r, c

    def bottom_up(self, x):
        """Ahat_l from R_l, then E_l, then A of the layer above."""
        a = x
        for layer in range(len(self.shapes)):
            ahat = torch.relu(conv(self.r[layer], self.w[f"ahat{layer}.W"], self.w[f"ahat{layer}.b"]))
            if layer == 0:
                ahat = torch.minimum(ahat, torch.ones_like(ahat))
                self.prediction = ahat
            self.e[layer] = torch.cat((torch.relu(ahat - a), torch.relu(a - ahat)), dim=1)
            if layer < len(self.shapes) - 1:
                a = pool(torch.relu(conv(self.e[layer], self.w[f"a{layer}.W"], self.w[f"a{layer}.b"])))

    def run(self, frames, layer_weights):
        """The loss of frames (nt, B, 3, H, W), the squared error of the predictions, and the gradients."""
        nt, batch = frames.shape[:2]
        zeros = [torch.zeros((batch, *shape), dtype=torch.float64) for shape in self.shapes]
        self.r, self.c, self.e = list(zeros), list(zeros), [torch.cat((z, z), dim=1) for z in zeros]
        time_weights = [0.0] + [1 / (nt - 1)] * (nt - 1)
        total, squares = 0, 0
        for frame, time_weight in zip(frames, time_weights, strict=True):
            for half in (self.bottom_up, self.top_down) if self.bottom_up_first else (self.top_down, self.bottom_up):
                half(frame) if half == self.bottom_up else half()
            for sample in range(batch):
                for e, layer_weight in zip(self.e, layer_weights, strict=True):
                    total = total + time_weight * layer_weight * e[sample].sum() / e[sample].numel()
            squares = squares + time_weight * ((self.prediction - frame) ** 2).sum() / frame.numel()
        loss = total / batch
        loss.backward()
        zero = torch.zeros(())
        return loss.item(), squares.item(), {k: zero if p.grad is None else p.grad for k, p in self.w.items()}


def keras_adam(parameters, gradients, moments, t, lr, beta1=0.9, beta2=0.999, epsilon=1e-8):
    """One step of Keras 1's Adam, as its ``get_updates`` has it: epsilon beside the uncorrected second moment."""
    lr_t = lr * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
    for p, g, (m, v) in zip(parameters, gradients, moments, strict=True):
        m.mul_(beta1).add_((1 - beta1) * g)
        v.mul_(beta2).add_((1 - beta2) * g * g)
        p.sub_(lr_t * m / (v.sqrt() + epsilon))
