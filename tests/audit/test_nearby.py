"""Places are the user's lines, cheap to note and named later."""

import _thread
import collections
import os
import time

import torch
from torch import nn

from ablate.audit.nearby import Place, here, near, source


def test_the_place_is_the_line_outside_torch_and_the_standard_library():
    places = []

    class Layer(nn.Module):
        def forward(self, x):
            collections.Counter(places.append(here()) for _ in range(1))
            return x

    layer = Layer()
    layer(torch.ones(1))
    assert source(places[0]).endswith("<genexpr>")
    assert places[0].module_id == id(layer)
    assert places[0].module_class == "Layer"


def test_paths_are_relative_to_the_working_directory(monkeypatch):
    place = here()
    monkeypatch.chdir(os.path.dirname(__file__))
    assert source(place).startswith("test_nearby.py:")
    assert source(place).endswith(" in test_paths_are_relative_to_the_working_directory")
    monkeypatch.chdir("/")
    assert source(place).split(":")[0] in (__file__, __file__[1:])


def test_a_stack_without_user_code_gives_an_empty_source():
    """As autograd's own threads have it, which call the hooks of a backward on another device."""
    places = []
    code = compile("lambda: places.append(here())", torch.__file__, "eval")
    torch_function = eval(code, {"here": here, "places": places})
    _thread.start_new_thread(torch_function, ())
    while not places:
        time.sleep(0.001)
    assert places == [Place(None, 0, 0, "")]
    assert source(places[0]) == ""


def test_words():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    nowhere = Place(None, 0, 0, "")
    assert near(model[0].weight.t(), nowhere, 0, model) == "parameter 0.weight"
    assert near(model[1].running_var, nowhere, 0, model) == "buffer 1.running_var"
    t = torch.ones(2)
    assert near(t, Place(None, 0, id(model[1]), "BatchNorm1d"), 0, model) == "inside module 1 (BatchNorm1d)"
    assert near(t, Place(None, 0, id(model), "Sequential"), 0, model) == "inside module the model itself (Sequential)"
    assert (
        near(t, Place(None, 0, 1, "Other"), 0, model) == "inside a module of class Other, which is no part of the model"
    )
    assert near(t, nowhere, id(model[0].bias), model) == "outside every module, after parameter 0.bias"
    assert near(t, nowhere, 0, model) == "outside every module"
    assert near(t, nowhere, 0, None) == ""
    assert near(t.to_sparse(), nowhere, 0, model) == "outside every module"
