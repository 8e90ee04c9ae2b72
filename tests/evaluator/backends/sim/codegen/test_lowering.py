# ruff: noqa: E501 - PTX reads best one statement after the other
"""What one instruction becomes: PTX, and below it the C++ that is expected, in a file for each family.

The files show registers by their names in PTX, where the C++ says r0, r1, …
"""

import re
from pathlib import Path

import pytest
from duel import HEADER

from evaluator.backends.sim.codegen.instructions import known_instructions
from evaluator.backends.sim.codegen.module import translate
from evaluator.backends.sim.ptx import parser

FOLDER = Path(__file__).parent / "lowering"
DECLARED = """.global .align 16 .b8 numbers[64]; .extern .func (.param .b32 n) vprintf(.param .b64 a, .param .b64 b);
.func (.param .b32 back) twice(.param .b32 what) { .reg .b32 %r; ld.param.b32 %r, [what]; ret; }
.visible .entry k(.param .u64 from, .param .f32 scale) { .shared .align 16 .b8 tile[64]; .local .align 8 .b8 room[16];
.param .b32 given; .param .b32 got; .reg .pred %p, %q; .reg .b16 %h, %i; .reg .b32 %a, %b, %c, %d; .reg .b64 %x, %y, %z;
"""


def stanzas(text: str) -> dict[str, str]:
    """PTX statements and, indented below each, its C++."""
    pairs = re.findall(r"^(\S.*)\n((?:    .*\n)+)", text, re.MULTILINE)
    return {ptx: re.sub(r"^    ", "", lines, flags=re.MULTILINE) for ptx, lines in pairs}


def cpp_of(statements: str) -> str:
    """The C++ of statements at the start of a kernel, without the kernel around them."""
    module = parser.parse_ptx(HEADER + DECLARED + statements + "\nret; }")
    text = translate(module).text
    body = text[text.index("static void k1(Warp &w) {") :]
    first = re.search(
        r"^B0: \{\n(?:if \(LANES_APART.*\n)?enter\(.*?\n(.*?)^\}\n(?:B1: \{|\})$", body, re.MULTILINE | re.DOTALL
    )
    assert first is not None
    names = list(module.functions["k"].registers)
    shown = re.sub(r"\br(\d+)\b", lambda number: names[int(number[1])], first[1])
    return re.sub(" +$", "", shown, flags=re.MULTILINE).removesuffix("w.live &= ~m;\ngoto dispatch;\n")


CASES = [
    (path.stem, ptx, expected)
    for path in sorted(FOLDER.glob("*.txt"))
    for ptx, expected in stanzas(path.read_text(encoding="utf-8")).items()
]


@pytest.mark.parametrize(("family", "ptx", "expected"), CASES, ids=[f"{family}: {ptx}" for family, ptx, _ in CASES])
def test_an_instruction_becomes(family, ptx, expected):
    assert cpp_of(ptx) == expected


def test_every_family_has_its_file():
    families = {family for family, _ in known_instructions()}
    assert {family for family, _, _ in CASES} == families == {path.stem for path in FOLDER.iterdir()}
