"""PTX text as words (PTX ISA 9.0, section 4)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evaluator.backends.session import UnsupportedError

_WORD = re.compile(
    r"""(?P<space>[ \t\r\n]+|//[^\n]*|/\*.*?\*/)
      | (?P<unclosed>/\*)
      | (?P<float>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|\d+\.\d+(?:[eE][-+]?\d+)?)
      | (?P<number>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
      | (?P<name>[A-Za-z_$%.][\w$%]*(?:::[\w$%]+)*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<mark>[-+!|<>=(){}\[\],;:@*~?/&^])""",
    re.X | re.S | re.ASCII,
)
_MAX_WORDS = 4_000_000


def main_file(text: str) -> str:
    """The number that `.loc` gives to the submission's own file (`.file` lines may stand at the end)."""
    files: list[tuple[str, str]] = re.findall(r'^[ \t]*\.file[ \t]+(\d+)[ \t]+"([^"\n]*)"', text, re.M)
    ours = [number for number, name in files if name.rsplit("/", 1)[-1] == "kernel.cu"]
    return (ours or [number for number, _ in files] or ["1"])[0]


@dataclass(frozen=True)
class PtxToken:
    """One word, number, string or mark; the last one is of kind `end`."""

    kind: str
    text: str


def ptx_tokens(text: str) -> Iterator[PtxToken]:
    """Cut a text into words. Raises UnsupportedError for what is none."""
    position = 0
    count = 0
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None or match.lastgroup == "unclosed":
            raise UnsupportedError(f"PTX text {text[position : position + 20]!r}")
        position = match.end()
        if match.lastgroup != "space":
            count += 1
            if count > _MAX_WORDS:
                raise UnsupportedError(f"PTX of more than {_MAX_WORDS} words")
            yield PtxToken(match.lastgroup or "", match[0])
    yield PtxToken("end", "")
