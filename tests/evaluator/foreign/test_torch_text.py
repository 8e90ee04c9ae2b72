"""PyTorch text: what becomes a file, and what is refused before anything runs."""

import re

import pytest

from evaluator.errors import UsageError
from evaluator.foreign.inside.server import ReferenceServer
from evaluator.foreign.torch_text import expression_of, kernelbench_text, shapes_of


def test_an_expression_becomes_a_file_whose_sizes_are_its_extents() -> None:
    text = kernelbench_text("F.relu(a @ b + 1)[0] * -2.5", shapes_of(("a=8x16", "b=16x8")))
    told = ReferenceServer(text, 1 << 20).describe()
    assert told["sizes"] == {"n0": 8, "n1": 16}
    assert [(one["name"], one["shape"], one["draw"]["kind"]) for one in told["inputs"]] == [
        ("a", [8, 16], "normal"),
        ("b", [16, 8], "normal"),
    ]
    assert told["outputs"][0]["shape"] == [8]
    assert expression_of(text) == "F.relu(a @ b + 1)[0] * -2.5"


@pytest.mark.parametrize(
    "expression",
    [
        "torch.load('x')",
        "torch.ops.aten.add(a, a)",
        "__import__('os').system('ls')",
        "(lambda: a)()",
        "[a for b in a]",
        "a.numpy()",
        "torch.add(*a)",
        "torch.add(a, b)",
        "torch",
        "a if a else a",
        "f'{a}'",
        "a := 3",
        "a + 3j",
        "((" * 5000 + "a",
        "a; import os",
        "",
    ],
)
def test_only_listed_functions_of_named_tensors_are_read(expression: str) -> None:
    with pytest.raises(UsageError):
        kernelbench_text(expression, {"a": (4,)})


def test_messages_speak_of_shapes_as_they_were_given() -> None:
    for given_by, told in (("--shape", "--shape b=1024"), ("shapes", '{"b": [1024]}')):
        with pytest.raises(UsageError, match=re.escape(told)):
            kernelbench_text("a + b", {"a": (4,)}, given_by)  # type: ignore[arg-type]  # of the loop
    with pytest.raises(UsageError) as unused:
        kernelbench_text("a", {"a": (4,), "b": (4,)})
    assert unused.value.remedy == "Leave it out of `shapes`."


@pytest.mark.parametrize("shapes", [(), ("a",), ("a=0",), ("a=3x",), ("a=3", "a=4"), ("torch=3",), ("_a=3",)])
def test_shapes_that_cannot_be_read(shapes: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        shapes_of(shapes)


def test_a_tensor_that_is_not_used_is_told() -> None:
    with pytest.raises(UsageError, match="does not use b"):
        kernelbench_text("a + 1", {"a": (4,), "b": (4,)})
