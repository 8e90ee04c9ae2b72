"""Which dialect a text is in, where nobody says so; and the entry function of host code."""

import re
from dataclasses import dataclass
from typing import Final

from evaluator.stages.screen.lexer import SourceText

ENTRIES: Final = ("solve", "solution")
"""What LeetGPU and Tensara call."""
_ENTRY: Final = re.compile(
    r"\bvoid\s+(?P<name>" + "|".join(ENTRIES) + r")\s*\((?P<parameters>[^(){};]*)\)\s*(?:noexcept\s*)?\{"
)
_LAUNCH: Final = re.compile(r"<<<|\bcudaLaunch(?:Cooperative)?Kernel\w*\s*\(")
_NAME: Final = re.compile(r"([A-Za-z_]\w*)\s*(?:\[\s*\]\s*)?(?:=[^,]*)?\Z")
_UNNAMED: Final = frozenset(
    {"int", "float", "double", "long", "short", "char", "unsigned", "size_t", "bool", "const"}
)


@dataclass(frozen=True)
class EntryFunction:
    """The host function that a submission is called by."""

    name: str
    parameter_names: tuple[str | None, ...]
    """As the text says them; None for one without a name."""
    line: int


def entry_function(source: str) -> EntryFunction | None:
    """The first definition of `solve` or `solution` in a text; None where there is none."""
    text = SourceText.read(source)
    for name in ENTRIES:
        for match in _ENTRY.finditer(text.code):
            if match["name"] == name:
                return EntryFunction(name, _names(match["parameters"]), text.line(match.start("name")))
    return None


def is_solve(source: str) -> bool:
    """Whether a text is host code that launches: `extern "C" void solve(…)` or `solution(…)` with a launch in it, and
    no launch plan.
    """
    if "// assay:" in source or not any(name in source for name in ENTRIES):
        return False
    return _LAUNCH.search(SourceText.read(source).code) is not None and entry_function(source) is not None


def _names(parameters: str) -> tuple[str | None, ...]:
    if not parameters.strip() or parameters.strip() == "void":
        return ()
    found = (_NAME.search(part.strip()) for part in parameters.split(","))
    return tuple(match[1] if match and match[1] not in _UNNAMED else None for match in found)
