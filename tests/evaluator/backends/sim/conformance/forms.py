"""Forms of instructions: one PTX statement or a few, with the operands that each thread reads and writes.

`{a:f32}` in a form's text is a register that holds an input of that type, `{d:f32}` (`d`, `d2`, …) one whose value is
a result. Behind an `@` stands what kind of values an input takes, or of which type a result's bits are. `{in}` and
`{out}` are the addresses of the thread's inputs and results; `{slot}` its 64 bytes of shared memory and `{tile}`
those of its warp, `{page}` and `{pages}` 128 bytes likewise, `{first}` where shared memory begins; `{n}` a number of
the form's own.

A template stands for many forms: `<.rn|.rz>` for each of its alternatives, `<T=u32|s32>` too, and `<T>` behind it for
the one that was chosen.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from evaluator.backends.sim.ptx.model import TYPE_BYTES

FIELD = re.compile(r"\{([a-z]\d*):(\w+)(?:@(\w+))?\}")
_NAME = re.compile(r"(.*) \[(\d+) x (\d+)\]")
_CHOICE = re.compile(r"<(?:(\w+)=)?([^<>]*\|[^<>]*)>")
_CONTENT = {"u8": "b16", "s8": "b16", "b8": "b16", "f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}
_REGISTERS = _CONTENT | {"tf32": "b32", "u16x2": "b32", "s16x2": "b32"}
WIDTHS = {kind: 8 * size for kind, size in TYPE_BYTES.items()} | {"pred": 1, "u16x2": 32, "s16x2": 32}


@dataclass(frozen=True)
class Field:
    """An input or a result."""

    letter: str
    kind: str
    """The type that says the register's width."""
    content: str
    """The kind of values, or a result's type."""

    @property
    def register(self) -> str:
        """The type of the register in PTX, where not all types may stand."""
        return _REGISTERS.get(self.kind, self.kind)

    @property
    def bits(self) -> int:
        """How many bits of the register there are."""
        return WIDTHS[self.kind]


@dataclass(frozen=True)
class Launch:
    """How many blocks of how many threads run a form."""

    blocks: int
    block_threads: int

    @property
    def threads(self) -> int:
        """All of them."""
        return self.blocks * self.block_threads


WHOLE, PAGES, PARTIAL, SMALL = Launch(1, 256), Launch(2, 128), Launch(6, 45), Launch(12, 20)


@dataclass(frozen=True)
class Form:
    """One form, as all threads of a launch execute it."""

    text: str
    launch: Launch = WHOLE

    @property
    def name(self) -> str:
        """What it is called in recordings and reports."""
        return f"{self.text} [{self.launch.blocks} x {self.launch.block_threads}]"

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Each letter once, in the order of the text."""
        found: dict[str, Field] = {}
        for letter, kind, content in FIELD.findall(self.text):
            if letter not in found or content:
                found[letter] = Field(letter, kind, content or kind)
        return tuple(found.values())

    @property
    def inputs(self) -> tuple[Field, ...]:
        """What each thread reads."""
        return tuple(field for field in self.fields if field.letter[0] != "d")

    @property
    def results(self) -> tuple[Field, ...]:
        """What each thread writes."""
        return tuple(field for field in self.fields if field.letter[0] == "d")

    @property
    def statement(self) -> str:
        """The text without what only says types: to see what instructions there are."""
        return FIELD.sub(lambda match: "%" + match[1], self.text)

    def digest(self, operands: bytes) -> str:
        """Tells this form and its operands from any others."""
        return hashlib.sha256(self.name.encode() + b"\0" + operands).hexdigest()[:16]


def form_of(name: str) -> Form:
    """The form that is called so."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no form's name")
    return Form(match[1], Launch(int(match[2]), int(match[3])))


def expanded(templates: Iterable[str]) -> Iterator[str]:
    """The texts of templates, each once, in order."""
    seen: set[str] = set()
    for template in templates:
        for text in _chosen(template):
            if text not in seen:
                seen.add(text)
                yield text


def _chosen(template: str) -> Iterator[str]:
    match = _CHOICE.search(template)
    if match is None:
        yield template
        return
    for choice in match[2].split("|"):
        text = template[: match.start()] + choice + template[match.end() :]
        yield from _chosen(text.replace(f"<{match[1]}>", choice) if match[1] else text)


_SINGLE = re.compile(r"^(?!mov|@|\{)(\w+)\S* \{d:(\w+)(?:@\w+)?\}, [^;]*;$")


def guarded(forms: Iterable[Form]) -> Iterator[Form]:
    """Of each opcode and type of result the first form again, behind a guard and in partial warps.

    Lanes whose guard is false keep what the result's register held.
    """
    seen: set[tuple[str, str]] = set()
    for form in forms:
        match = _SINGLE.match(form.text)
        if match is None or (match[1], match[2]) in seen:
            continue
        seen.add((match[1], match[2]))
        kind = match[2]
        move = "pred" if kind == "pred" else f"b{max(16, WIDTHS[kind])}"
        negation = "!" if sum((match[1] + match[2]).encode()) % 2 else ""
        yield Form(f"mov.{move} {{d:{kind}}}, {{o:{kind}}}; @{negation}{{g:pred}} {form.text}", PARTIAL)
