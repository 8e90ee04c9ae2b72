"""Which numbers of a file have other values at other sizes, and which of them together."""

import ast

import pytest

from evaluator.foreign.inside.forms.leetgpu import LeetGpuFile
from evaluator.foreign.inside.forms.tensara import TensaraFile
from evaluator.foreign.inside.numbers_in_text import Together, text_at, varies

CHALLENGE = """
{top}
class Challenge:
    def _case(self, rows, columns, seed=7):
        return dict(rows=rows, columns=columns)
    def generate_performance_test(self):
        {body}
"""


def numbers(body: str, top: str = "") -> dict[str, int]:
    found = LeetGpuFile.parsed(CHALLENGE.format(body=body, top=top))[1]
    return {name: place.value for name, place in found.items()}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return {'x': torch.rand((4096, 100_000)), 'N': 100_000}", {"N": 100_000, "number_4096": 4096}),
        ("return {'x': torch.rand(1 << 20), 'N': 1 << 20, 'bins': 8}", {"N": 1 << 20}),
        ("return self._case(512, columns=64, seed=42)", {"rows": 512, "columns": 64, "number_42": 42}),
        ("n = 512\n        return {'x': torch.rand(n), 'N': 512}", {"n": 512}),
        ("shape = (256, 128)\n        M = 256\n        return {'x': torch.rand(shape), 'M': M}",
         {"M": 256, "number_256": 256, "number_128": 128}),
        ("return {'x': torch.rand(500), 'N': 500, 'last': 499, 'from': 451}", {"N": 500}),
        ("return {'x': torch.rand(15), 'N': 15, 'scale': 0.5}", {}),
    ],
)  # fmt: skip
def test_numbers_of_a_performance_test(body: str, found: dict[str, int]) -> None:
    assert numbers(body) == found


def test_numbers_at_the_top_of_a_challenge_are_among_them() -> None:
    assert numbers("return self._case(512, 64)", top="WIDTH = 768\nROWS = WIDTH * 2") == {
        "rows": 512,
        "columns": 64,
        "WIDTH": 768,
    }


def test_equal_numbers_have_other_values_together_and_an_index_stays_below_its_extent() -> None:
    text = CHALLENGE.format(top="", body="return {'x': torch.zeros(500, 8), 'N': 500, 'last': 499, 'first': 11}")
    tree, constants = LeetGpuFile.parsed(text)
    together = constants["N"]
    assert isinstance(together, Together)
    assert varies(together)
    for extent, last in ((250, 249), (62, 61), (3, 2), (1000, 998)):
        together.value = extent
        assert not together.whole
        assert ast.unparse(tree).endswith(
            f"{{'x': torch.zeros({extent}, 8), 'N': {extent}, 'last': {last}, 'first': 11}}"
        )


CASES = """
class one:
    def generate_test_cases(self):
        cases = [{"name": "few", "dims": (64, 32), "n": 8, "kind": "x"}, {"name": "many", "dims": (128, 4096)}]
        return [self.of(case, 2048) for case in cases]
"""


def test_numbers_of_test_cases_that_are_dicts_have_their_names() -> None:
    found = TensaraFile.parsed(CASES)[1]
    assert {name: place.value for name, place in found.items()} == {
        "dims_0": 64,
        "dims_1": 32,
        "n": 8,
        "number_2048": 2048,
    }
    assert [name for name, place in found.items() if not varies(place)] == ["number_2048"]


def test_a_text_at_other_sizes_is_the_same_but_for_its_numbers():
    text = "batch, N = 4, 1 << 10  # ä\nshape = (16, 2)\nN2 = N * 2\nsaid = f'{batch}é'\n"
    changed = text_at(text, {"batch": 2, "N": 96, "shape_0": 8, "other": 3})
    assert changed == "batch, N = 2, 96  # ä\nshape = (8, 2)\nN2 = N * 2\nsaid = f'{batch}é'\n"
    assert text_at(text, {}) == text
