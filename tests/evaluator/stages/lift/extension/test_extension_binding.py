import pytest

from common.contract import Status
from evaluator.problems.catalogue import find_problem
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.process_calls import ProcessCalls
from evaluator.stages.lift.extension.binding import (
    ExtensionFunction,
    ExtensionParameter,
    ExtensionSignature,
    bind_extension,
    expected_function,
)

SAXPY = find_problem("saxpy")


def function(*parameters: tuple[str, str], name: str = "forward", defaults: int = 0) -> ExtensionFunction:
    first = len(parameters) - defaults
    listed = [
        ExtensionParameter(kind=kind, name=said, has_default=at >= first)
        for at, (kind, said) in enumerate(parameters)
    ]
    return ExtensionFunction(name=name, parameters=tuple(listed))


def bound(*functions: ExtensionFunction, source: str = ""):
    return bind_extension(SAXPY, source, ExtensionSignature(functions=functions))


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ((("t", "x"), ("t", "y"), ("f", "alpha")), ("x", "y", "alpha")),
        ((("f", "alpha"), ("t", "y"), ("t", "x")), ("alpha", "y", "x")),
        ((("t", ""), ("t", ""), ("f", "")), ("x", "y", "alpha")),
        ((("t", "a"), ("t", "b"), ("f", "s"), ("i", "size")), ("x", "y", "alpha", "n")),
        ((("t", "a"), ("t", "b"), ("t", "c"), ("f", "s")), ("x", "y", "out", "alpha")),
        ((("t", "a"), ("t", "b"), ("to", "bias"), ("f", "s")), ("x", "y", None, "alpha")),
        ((("to", "a"), ("o", "b"), ("f", "s")), ("x", "y", "alpha")),
        ((("t", "x"), ("t", "y"), ("o", "alpha"), ("o", "n")), ("x", "y", "alpha", "n")),
        ((("o", "a_obj"), ("o", "b_obj"), ("o", "bias_obj"), ("f", "s")), ("x", "y", None, "alpha")),
    ],
    ids=[
        "by name",
        "in another order",
        "by order",
        "with a size",
        "into the output",
        "an optional one",
        "objects",
        "numbers as objects",
        "a bias of no problem",
    ],
)
def test_parameters_of_an_extension_get_what_their_names_or_places_say(parameters, names):
    assert bound(function(*parameters)).names == names


def test_names_are_read_where_the_function_is_written():
    source = (
        "torch::Tensor scaled(const torch::Tensor& y,\n    std::vector<float> unused, torch::Tensor x) { return y; }"
    )
    one = function(("t", ""), ("fl", ""), ("t", ""), name="scaled", defaults=0)
    with pytest.raises(LiftRefusedError, match="parameter 2 is of a type"):
        bound(one, source=source)
    source = source.replace("std::vector<float> unused", "double alpha = 1")
    assert bound(function(("t", ""), ("f", ""), ("t", ""), name="scaled"), source=source).names == ("y", "alpha", "x")


def test_what_has_a_default_and_no_meaning_keeps_it():
    with_default = function(("t", "x"), ("t", "y"), ("f", "alpha"), ("i", "variant"), ("b", "fast"), defaults=2)
    assert bound(with_default).names == ("x", "y", "alpha")


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ((), "no function"),
        ((function(name="a"), function(name="b")), "the functions a, b, and none of them is `forward`"),
        ((function(("t", "x")),), "it takes 1 tensors"),
        ((function(("t", "x"), ("t", "y"), ("i", "alpha")),), "takes an integer"),
        ((function(("t", "x"), ("t", "y"), ("f", "alpha"), ("f", "beta")),), "nothing of the problem is parameter 4"),
        ((function(("t", "x"), ("t", "y"), ("x", "what")),), "parameter 3 is of a type"),
    ],
    ids=["none", "which", "tensors", "type", "too many", "unknown"],
)
def test_a_module_that_does_not_fit_is_told_what_would(functions, said):
    with pytest.raises(LiftRefusedError, match=said) as caught:
        bound(*functions)
    assert caught.value.ruling.status is Status.INVALID_SUBMISSION
    assert caught.value.ruling.hint


def test_a_call_is_a_script_of_tensors_numbers_and_one_function():
    binding = bound(function(("t", "x"), ("t", "y"), ("f", "alpha")))
    call = binding.calls_of(SAXPY, ProcessCalls({"n": 5}, {"alpha": -0.5}))
    assert call.buffers_bytes == (20,) * 6  # two sets, which the calls of one process take in turn
    script = ("tensor 3 0 6 5", "tensor 3 1 6 5", "float -0.5 0", f"call {b'forward'.hex()} 3 1 2 3", "give 1 4")
    assert call.values[:6] == ("begin 0", *script)


def test_the_function_that_fits_is_written_out():
    said = "torch::Tensor forward(torch::Tensor x, torch::Tensor y, double alpha)"
    assert expected_function(SAXPY) == said


def test_a_list_takes_a_number_for_each_axis():
    conv2d = find_problem("conv2d")
    taken = function(("t", "x"), ("t", "weight"), ("il", "width"), ("i", "height"))
    binding = bind_extension(conv2d, "", ExtensionSignature(functions=(taken,)))
    assert binding.names == ("x", "weight", ("width", "width"), "height")
    sizes = {"batch": 1, "in_channels": 2, "out_channels": 3, "height": 4, "width": 5}
    lines = binding.calls_of(conv2d, ProcessCalls(sizes, {})).values
    assert lines[3:9] == ("int 1 5", "int 1 5", "list 2 3 4", "int 1 4", "call 666f7277617264 4 1 2 5 6", "give 1 7")
