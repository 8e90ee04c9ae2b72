"""How a reference calls `forward`, read from its text."""

import ast
from typing import Any

import pytest

from evaluator.backends.stated_call import forward_arguments, stated_call

TENSORS = {"x": "X", "y": "Y", "pair_0": "P", "pair_1": "Q", "xs_0": "A", "xs_1": "B", "w_input": "W"}


def called(parameters: str, body: str, own: str = "*args, **kwargs") -> Any:
    """Of a reference with these parameters of `forward`, and this body of `get_inputs`."""
    text = f"N = 6\nclass Model:\n    def forward(self, {parameters}): pass\ndef get_inputs():\n    {body}\n"
    names: dict[str, Any] = {}
    tree = ast.parse(text)
    exec(compile(tree, "reference.py", "exec"), names)
    function: dict[str, Any] = {}
    exec(f"def forward({own}): pass", function)
    found = stated_call(tree, names, function["forward"], TENSORS)
    return found and (*found[:2], sorted(found[2]))


@pytest.mark.parametrize(
    ("parameters", "body", "found"),
    [
        ("x, k, s, none", "k = N // 2\n    return [t.randn(N), k, 'sum', None]", (["X", 3, "sum", None], {}, ["x"])),
        (
            "pair, k",
            "p = [t.rand(N), t.rand(3)]\n    return [p, -1.5]",
            ([["P", "Q"], -1.5], {}, ["pair_0", "pair_1"]),
        ),
        ("pair", "return [{'a': t.rand(N), 'b': t.rand(N)}]", ([{"a": "P", "b": "Q"}], {}, ["pair_0", "pair_1"])),
        ("x, *, k", "return {'x': t.rand(N), 'k': int(N)}", ([], {"x": "X", "k": 6}, ["x"])),
        ("x, k", "return [[t.rand(N)], {'k': max(2, 3)}]", (["X"], {"k": 3}, ["x"])),
        ("*xs", "t.seed(0)\n    return [t.rand(N), t.rand(N), True]", (["A", "B", True], {}, ["xs_0", "xs_1"])),
        ("w, k", "return t.rand(N), 1", (["W", 1], {}, ["w_input"])),
        ("x, k, s", "x, k = t.rand(N), 3\n    s = n = N\n    return [x, k, n]", (["X", 3, 6], {}, ["x"])),
    ],
)
def test_numbers_text_and_what_holds_tensors_are_passed(parameters: str, body: str, found: Any) -> None:
    assert called(parameters, body) == found


@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        ("x, y", "return [t.rand(N), t.rand(N)]"),  # what is bound by names and in order
        ("x, k", "return [t.rand(N), random.randint(1, 4)]"),
        ("x, k", "k = 1\n    if N > 3:\n        k = 2\n    return [t.rand(N), k]"),
        ("x, k", "k: int\n    x, k = t.rand(N).split(3)\n    return [x, 1]"),
        ("x, k", "k = [1]\n    k.append(2)\n    return [t.rand(N), k]"),
        ("x, k", "return [t.rand(i) for i in (1, 2)]"),
        ("z, k", "return [t.rand(N), 3]"),
        ("x, k", "return [t.rand(N), 3, 4]"),
    ],
)
def test_what_the_text_does_not_say_is_not_known(parameters: str, body: str) -> None:
    assert called(parameters, body) is None


class Solution:
    """A ModelNew whose forward takes anything."""

    def __init__(self, *parameters: str) -> None:
        self.parameters = parameters

    def named_parameters(self) -> Any:
        return ((name, name) for name in self.parameters)

    def forward(self, *args: Any) -> None:
        pass


def test_one_that_takes_anything_gets_what_forward_does_where_it_has_parameters() -> None:
    names: dict[str, Any] = {}
    exec("class Model:\n    def forward(self, x, w): pass", names)
    tree = ast.Module([], [])
    found = forward_arguments(tree, names, Solution("pair_0").forward, TENSORS, {})
    assert found == (["X", "W"], {}, ["x", "w_input"])
    for names_there, model in ((names, Solution()), ({}, Solution("pair_0"))):
        assert forward_arguments(tree, names_there, model.forward, TENSORS, {})[0] == list(TENSORS.values())


def test_a_function_that_takes_less_is_called_in_another_way() -> None:
    body = "return [t.rand(N), 3]"
    assert called("x, k", body, "one, other") == (["X", 3], {}, ["x"])
    assert called("x, k", body, "one") is None
