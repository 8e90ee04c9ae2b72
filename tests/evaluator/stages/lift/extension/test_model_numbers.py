"""Numbers that the Model of a file in KernelBench's form is made with."""

import pytest

from evaluator.problems.catalogue import find_problem
from evaluator.stages.lift.extension.model_numbers import numbers_of_model, text_of

MODEL = """
import torch.nn as nn

{top}

class Model(nn.Module):
    def __init__(self, {parameters}):
        super().__init__()

def get_init_inputs():
    return {given}
"""


@pytest.mark.parametrize(
    ("parameters", "given", "top", "numbers"),
    [
        ("stride, padding=1", "[2]", "", {"stride": 2, "padding": 1}),
        ("channels, dim=-1", "[channels]", "channels = 8", {"channels": "channels", "dim": -1}),
        ("scale", "[factor]", "factor = 0.5", {"scale": 0.5}),
        ("stride", "[steps]", "steps = (2, 3)", {"stride_0": 2, "stride_1": 3}),
        ("kernel", "[window]", "window = (4, 5)", {"kernel_0": "window_0", "kernel_1": "window_1"}),
        ("a, bias=True, *, eps=1e-5, name='x'", "{'a': 3, 'eps': 0.1}", "", {"a": 3, "bias": True, "eps": 0.1}),
        ("a, b=2", "[]", "", {"b": 2}),
        ("a, b=2", "[int(3), 2 * 4]", "", {}),
        ("a, b, c=7", "[1, *pair]", "pair = (3, 4)", {"a": 1}),
        ("a, b=2", "{'a': 1, **more}", "more = {'b': 3}", {"a": 1}),
        ("*sizes", "[1, 2]", "", {}),
        ("stride, padding=1", "given", "given = [2, 3]", {"stride": 2, "padding": 3}),
        ("channels, padding=1", "given", "channels = 8\ngiven = [channels]", {"channels": "channels", "padding": 1}),
        # What is given is not known, so that a default is none either.
        ("stride, padding=1", "given", "given = [2]\ngiven.append(3)", {}),
        ("stride, padding=1", "made()", "def made(): return [2, 3]", {}),
        ("stride, padding=1", "[[2], {'padding': 3}]", "", {"stride": 2, "padding": 3}),
    ],
)
def test_what_model_is_made_with_counts_before_its_defaults(parameters, given, top, numbers):
    text = MODEL.format(parameters=parameters, given=given, top=top)
    found = numbers_of_model(text, {"channels", "window_0", "window_1"})
    assert dict(found) == numbers
    assert {name: type(one) for name, one in found.items()} == {name: type(one) for name, one in numbers.items()}


def test_what_layers_are_given_by_another_name_is_known_by_that_too():
    text = MODEL.format(parameters="channels, width, stride=2", given="[channels, 4]", top="channels = 8")
    layers = "a = nn.Conv2d(channels, groups=channels, step=stride)\n        b = f(step=width)"
    found = numbers_of_model(text.replace("super().__init__()", layers), {"channels"})
    assert dict(found) == {"channels": "channels", "width": 4, "stride": 2, "groups": "channels"}


def test_what_forward_is_called_with_is_known_too():
    text = """
N, width = 8, 4
class Model:
    def forward(self, x, scale, n, w, y): pass
def get_inputs():
    scale = 2.5
    return [torch.randn(N), scale, N, width, torch.randn(width)]
"""
    assert dict(numbers_of_model(text, {"N"})) == {"scale": 2.5, "n": "N", "w": 4}


def test_without_a_model_there_are_none():
    assert not numbers_of_model("", {"n"})
    assert not numbers_of_model("class Model:\n    pass\n", {"n"})
    assert text_of(find_problem("relu")) == ""


def test_a_model_without_inputs_of_its_own_has_its_defaults():
    assert numbers_of_model("class Model:\n    def __init__(self, eps=1e-6): pass\n", ()) == {"eps": 1e-6}


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ("steps = 2\n    return [steps]", {"stride": 2, "padding": 1}),
        ("given = [2]\n    given += [3]\n    return given", {}),
        ("steps = channels\n    return [steps, channels]", {"stride": "channels", "padding": "channels"}),
        ("if channels > 4:\n        return [1]\n    return [2, 3]", {}),
    ],
)
def test_what_get_init_inputs_says_by_names_of_its_own_is_followed(body, numbers):
    text = MODEL.format(parameters="stride, padding=1", given="None", top="channels = 8").replace("return None", body)
    assert dict(numbers_of_model(text, {"channels"})) == numbers
