"""Launch plans as directives in the source, the other form of `launch_plan`.

    // assay: temp partial float32 (ceil_div(n, 1024))
    // assay: fill partial value=0
    // assay: launch block_sums grid=(ceil_div(n, 1024)) block=(256) shared=1024 args=(x, partial, n)
    // assay: launch final_sum grid=(1) block=(256) args=(partial, total, ceil_div(n, 1024))
    // assay: copy x y

A directive is a line whose first characters are `// assay:`, anywhere outside strings and block comments. The keys of
a launch (`grid`, `block`, `shared`, `cluster`, `cooperative`, `args`) stand in any order, each at most once.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError

from common.expressions import ExpressionError, names_in
from common.launch_plan import (
    MAX_STEPS,
    MAX_TEMPORARIES,
    NOT_FINITE,
    NUMBER,
    Copy,
    Extent,
    Fill,
    Launch,
    LaunchPlan,
    PlanError,
    RawArgument,
    Step,
    Temporary,
)
from common.wire import DType


def as_directives(plan: LaunchPlan) -> str:
    """`plan` as directive lines, temporaries first; `parse_directives` reads them back as the same plan.

    What only JSON can say (arguments as bytes, fills and copies of stretches) is told in words.
    """

    def listed(items: tuple[int | float | str | RawArgument, ...]) -> str:
        return "(" + ", ".join(map(argument_text, items)) + ")"

    lines = [f"temp {t.name} {t.dtype} {listed(t.shape)}" for t in plan.temporaries]
    for step in plan.steps:
        if isinstance(step, Fill):
            value = f"value={step.value!r}" if step.data is None else _data(step.data)
            lines.append(f"fill {step.target}{_stretch(step.offset_bytes, step.size_bytes)} {value}")
        elif isinstance(step, Copy):
            source = f"{step.source}{_stretch(step.source_offset_bytes, step.size_bytes)}"
            lines.append(f"copy {source} {step.target}{_stretch(step.target_offset_bytes, step.size_bytes)}")
        else:
            keys = [f"grid={listed(step.grid)}", f"block={listed(step.block)}"]
            keys += [f"shared={step.shared_bytes}"] if step.shared_bytes != 0 else []
            keys += [f"cluster={listed(step.cluster)}"] if step.cluster is not None else []
            keys += ["cooperative"] if step.cooperative else []
            lines.append(" ".join(["launch", step.kernel, *keys, f"args={listed(step.args)}"]))
    return "".join(f"{PREFIX} {line}\n" for line in lines)


def argument_text(argument: float | str | RawArgument) -> str:
    """An argument as a directive has it; bytes, which it cannot have, in words."""
    if isinstance(argument, RawArgument):
        return _raw(argument)
    return repr(argument) if isinstance(argument, float) else str(argument)


def _raw(argument: RawArgument) -> str:
    """Bytes as C++ would almost say them: an address as `x + 64 bytes`, others in hexadecimal."""
    parts, at = [], 0
    for address in argument.addresses:
        parts.append(_data(argument.data[2 * at : 2 * address.at]))
        parts.append(f"{address.buffer}{_stretch(address.offset_bytes, None)}")
        at = address.at + 8
    parts.append(_data(argument.data[2 * at :]))
    said = [part for part in parts if part]
    return said[0] if len(said) == 1 else "{" + ", ".join(said) + "}"


def _data(digits: str) -> str:
    shown = digits if len(digits) <= _SHOWN else f"{digits[:_SHOWN]}… ({len(digits) // 2} bytes)"
    return f"bytes {shown}" if digits else ""


def _stretch(offset_bytes: int, size_bytes: int | None) -> str:
    if size_bytes is not None:
        return f"[bytes {offset_bytes} to {offset_bytes + size_bytes}]"
    return f" + {offset_bytes} bytes" if offset_bytes else ""


def parse_directives(source: str) -> LaunchPlan | None:
    """The launch plan in the `// assay:` lines of `source`; None when it has none.

    Raises PlanError, with the line and a caret under the culprit, for anything malformed, and for a comment that
    looks like a directive but is not one (indented, behind code, misspelt).
    """
    temporaries: list[Temporary] = []
    steps: list[Step] = []
    for line in _directives(source):
        parsed = _parse(line)
        if isinstance(parsed, Temporary):
            if parsed.name in (t.name for t in temporaries):
                _, _, end = line.word(len(PREFIX), "temp")
                raise line.error(f"there is already a temporary named '{parsed.name}'", line.after_blanks(end))
            temporaries.append(parsed)
        else:
            steps.append(parsed)
        for found, most in ((temporaries, MAX_TEMPORARIES), (steps, MAX_STEPS)):
            if len(found) > most:
                raise line.error(f"a plan has at most {most} {'steps' if found is steps else 'temporaries'}", 0)
    if temporaries and not steps:
        launch = f"{PREFIX} launch KERNEL grid=(…) block=(…) args=(…)"
        raise PlanError(f"a plan needs at least one step, for example a line `{launch}`")
    return LaunchPlan(temporaries=tuple(temporaries), steps=tuple(steps)) if steps else None


def unmarked_launch(source: str) -> tuple[int, str] | None:
    """The number and text of the first comment that says how to launch as a directive does, without `assay`."""
    for lexeme in _LEXEME.finditer(source):
        if _UNMARKED.match(lexeme[0]):
            return source.count("\n", 0, lexeme.start()) + 1, lexeme[0].rstrip()
    return None


PREFIX: Final = "// assay:"
_SHOWN: Final = 64
"""Hexadecimal digits of bytes that are shown."""
_DIRECTIVES: Final = ("temp", "launch", "fill", "copy")
_LAUNCH_KEYS: Final = ("grid", "block", "shared", "cluster", "cooperative", "args")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGER = re.compile(r"-?[0-9]+")
_SUFFIXED = re.compile(r"(-?[0-9.]+(?:[eE][+-]?[0-9]+)?)[fFlLuUhH]+")
_NOT_A_NUMBER = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_KEY = re.compile(r"(?P<key>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=(?!=)|(?P<flag>cooperative)(?=\s|$)")
_NEAR = re.compile(r"\s*+/{2,}+[^\w\n]*+(?P<mark>\w+)[ \t]*(?P<colon>[:;=]?)[ \t]*(?P<word>\w*)")
_UNMARKED = re.compile(r"//[^\w\n]*launch\b[^\n]*\b(?:grid|block|args)[ \t]*=")
_LEXEME = re.compile(
    r"""//(?:\\\r?\n|[^\n])*+
    | /\*.*?(?:\*/|\Z)
    | (?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)
    | "(?:\\(?:\r\n|.)|[^"\\\n])*+"?
    | \.?[0-9](?:[eEpP][+-]|'?[\w.])*+
    | [^\W0-9]\w*+
    | '(?:\\(?:\r\n|.)|[^'\\\n])*+'?""",
    re.VERBOSE | re.DOTALL,
)
"""What can hide or hold a line comment. Numbers and words are here for `1'000` and `fooR"(`: no literals."""


@dataclass(frozen=True)
class _Line:
    """A directive's line. Positions count from its first character."""

    text: str
    number: int

    def error(self, reason: str, position: int) -> PlanError:
        return PlanError(reason, self.text, position, self.number)

    def after_blanks(self, position: int) -> int:
        while position < len(self.text) and self.text[position] in " \t":
            position += 1
        return position

    def word(self, position: int, what: str) -> tuple[str, int, int]:
        """The name at `position` (blanks skipped), its start and its end."""
        start = self.after_blanks(position)
        match = _NAME.match(self.text, start)
        if match is None:
            raise self.error(f"expected {what}", start)
        if match.end() < len(self.text) and self.text[match.end()] not in " \t(":
            raise self.error(f"expected a blank after {what}", match.end())
        return match[0], start, match.end()

    def end(self, position: int) -> None:
        start = self.after_blanks(position)
        if start < len(self.text):
            raise self.error("expected the end of the line", start)


@dataclass(frozen=True)
class _Piece:
    """A stretch of a line, without blanks around it."""

    text: str
    position: int


def _directives(source: str) -> Iterator[_Line]:
    """The lines that are directives. Raises PlanError for one that only looks like a directive."""
    number, counted = 1, 0
    for lexeme in _LEXEME.finditer(source):
        if not lexeme[0].startswith("//"):
            continue
        offset = lexeme.start()
        # A line comment that ends in a backslash goes on in the next line, which may be a directive all the same.
        for comment in lexeme[0].split("\n"):
            number, counted = number + source.count("\n", counted, offset), offset
            start = source.rfind("\n", 0, offset) + 1
            line = _Line(source[start : offset + len(comment)].rstrip("\r"), number)
            if line.text.startswith(PREFIX):
                if line.text.endswith("\\"):
                    raise line.error("a directive stands on one line: remove the backslash", len(line.text) - 1)
                yield line
            elif (reason := _near_miss(comment)) is not None:
                raise line.error(reason, line.after_blanks(offset - start))
            offset += len(comment) + 1


def _near_miss(comment: str) -> str | None:
    """Why a comment looks like a directive but is none; None when it does not look like one."""
    match = _NEAR.match(comment)
    if match is None:
        return None
    if match["mark"].lower() == "assay":
        near = bool(match["colon"]) or _asks(match["word"])
    else:
        close = len(match["mark"]) <= 8 and get_close_matches(match["mark"].lower(), ("assay",), cutoff=0.7)
        near = match["colon"] == ":" and bool(close) and _asks(match["word"])
    if not near:
        return None
    return f"this looks like a directive but is none: the line must start with exactly '{PREFIX}', in column 1"


def _asks(word: str) -> bool:
    return len(word) <= 8 and bool(get_close_matches(word.lower(), _DIRECTIVES, cutoff=0.7))


def _parse(line: _Line) -> Temporary | Step:
    word, start, end = line.word(len(PREFIX), f"a directive ({', '.join(_DIRECTIVES)})")
    try:
        if word == "temp":
            return _parse_temporary(line, end)
        if word == "launch":
            return _parse_launch(line, end)
        if word == "fill":
            return _parse_fill(line, end)
        if word == "copy":
            source, _, end = line.word(end, "the name of the tensor to copy from")
            target, _, end = line.word(end, "the name of the tensor to copy to")
            line.end(end)
            return Copy(source=source, target=target)
    except ValidationError as error:
        # The parser has checked the words; what is left are the models' limits, such as too many extents.
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
        raise line.error(f"{place}: {first['msg']}", start) from None
    raise line.error(f"unknown directive '{word}'{_nearest(word, _DIRECTIVES)}", start)


def _nearest(word: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    return f": did you mean '{close[0]}'?" if close else f" (known: {', '.join(known)})"


def _parse_temporary(line: _Line, position: int) -> Temporary:
    name, _, end = line.word(position, "the name of the temporary")
    dtype, start, end = line.word(end, "a dtype, for example float32")
    dtypes = tuple(item.value for item in DType)
    if dtype not in dtypes:
        raise line.error(f"unknown dtype '{dtype}'{_nearest(dtype, dtypes)}", start)
    opening = line.after_blanks(end)
    shape = _extents(line, _Piece(line.text[opening:].rstrip(), opening), "the extents, for example (n, 4)", 8)
    return Temporary(name=name, dtype=DType(dtype), shape=shape)


def _parse_fill(line: _Line, position: int) -> Fill:
    target, _, end = line.word(position, "the name of the tensor to fill")
    head, keys = _split(line, end, ("value",))
    if head.text:
        raise line.error("expected value=NUMBER", head.position)
    if "value" not in keys:
        raise line.error("value=NUMBER is missing", len(line.text))
    value = _number_or_expression(line, keys["value"])
    if isinstance(value, str):
        raise line.error("the value of a fill is a plain number", keys["value"].position)
    return Fill(target=target, value=value)


def _parse_launch(line: _Line, position: int) -> Launch:
    kernel, keys = _split(line, position, _LAUNCH_KEYS)
    if not kernel.text:
        raise line.error("expected the name of a kernel", kernel.position)
    if (brackets := line.text.find("<<<")) >= 0:
        raise line.error("a plan has no <<<…>>>: write grid=(…) block=(…) args=(…), and shared=BYTES", brackets)
    for key in ("grid", "block", "args"):
        if key in keys:
            # Read before the next key is missed, which may stand in this one's value for want of a blank.
            _items(line, keys[key], f"{key}=(…)", 64)
        else:
            raise line.error(f"{key}=(…) is missing", len(line.text))
    shared = keys.get("shared")
    if shared is not None:
        _check(line, shared)
    return Launch(
        kernel=" ".join(kernel.text.split()),
        grid=_extents(line, keys["grid"], "grid=(…)"),
        block=_extents(line, keys["block"], "block=(…)"),
        cluster=_extents(line, keys["cluster"], "cluster=(…)") if "cluster" in keys else None,
        shared_bytes=_plain(shared.text) if shared is not None else 0,
        cooperative="cooperative" in keys,
        args=tuple(_number_or_expression(line, item) for item in _items(line, keys["args"], "args=(…)", 64)),
    )


def _split(line: _Line, position: int, known: tuple[str, ...]) -> tuple[_Piece, dict[str, _Piece]]:
    """What stands before the first key, and each key's value. Keys are looked for outside parentheses only."""
    marks: list[re.Match[str]] = []
    opened: list[int] = []
    at = first = line.after_blanks(position)
    while at < len(line.text):
        character = line.text[at]
        match = _KEY.match(line.text, at) if not opened and line.text[at - 1] in " \t" else None
        if match is not None and not (match["flag"] and at == first):
            marks.append(match)
            at = match.end()
            continue
        if character == "(":
            opened.append(at)
        elif character == ")":
            if not opened:
                raise line.error("this ')' closes nothing", at)
            opened.pop()
        at += 1
    if opened:
        raise line.error("this '(' is never closed", opened[-1])
    ends = [mark.start() for mark in marks[1:]] + [len(line.text)][: len(marks)]
    values: dict[str, _Piece] = {}
    for mark, end in zip(marks, ends, strict=True):
        key = mark["key"] or mark["flag"]
        if key not in known:
            raise line.error(f"unknown key '{key}'{_nearest(key, known)}", mark.start())
        if key in values:
            raise line.error(f"'{key}' is given twice", mark.start())
        value = _piece(line.text, mark.end(), end)
        if key == "cooperative" and (value.text or mark["flag"] is None):
            wrong = value.position if mark["flag"] else mark.end("key")
            raise line.error("'cooperative' stands alone, without a value", wrong)
        if key != "cooperative" and not value.text:
            raise line.error(f"'{key}' has no value", mark.end())
        values[key] = value
    return _piece(line.text, position, marks[0].start() if marks else len(line.text)), values


def _piece(text: str, start: int, end: int) -> _Piece:
    stretch = text[start:end]
    return _Piece(stretch.strip(), start + len(stretch) - len(stretch.lstrip()))


def _items(line: _Line, value: _Piece, what: str, most: int) -> tuple[_Piece, ...]:
    """The items of a list in parentheses. `()` has none; an empty item between commas is an error."""
    if not value.text.startswith("("):
        raise line.error(f"expected {what}: a list stands in parentheses", value.position)
    items: list[_Piece] = []
    depth = 0
    start = value.position + 1
    for at, character in enumerate(value.text, value.position):
        depth += (character == "(") - (character == ")")
        if (character == "," and depth == 1) or depth == 0:
            items.append(_piece(line.text, start, at))
            start = at + 1
        if depth == 0:
            break
    else:
        raise line.error("this '(' is never closed", value.position)
    if start < value.position + len(value.text):
        extra = _piece(line.text, start, value.position + len(value.text))
        raise line.error("expected a blank and the next key, or the end of the line", extra.position)
    if len(items) == 1 and not items[0].text:
        return ()
    for item in items:
        if not item.text:
            raise line.error("there is nothing between the commas", item.position)
    if len(items) > most:
        raise line.error(f"at most {most} can stand here", items[most].position)
    return tuple(items)


def _extents(line: _Line, value: _Piece, what: str, most: int = 3) -> tuple[Extent, ...]:
    items = _items(line, value, what, most)
    if not items:
        raise line.error(f"expected {what}: at least one extent", value.position)
    for item in items:
        _check(line, item)
    return tuple(_plain(item.text) for item in items)


def _plain(text: str) -> int | str:
    return int(text) if _INTEGER.fullmatch(text) else text


def _check(line: _Line, item: _Piece) -> None:
    """Raise PlanError where `item` is no integer expression."""
    suffixed = _SUFFIXED.fullmatch(item.text)
    if suffixed is not None:
        raise line.error(f"a number has no suffix here: write {suffixed[1]}", item.position + suffixed.end(1))
    try:
        names_in(item.text)
    except ExpressionError as error:
        raise line.error(error.reason, item.position + error.position) from None


def _number_or_expression(line: _Line, item: _Piece) -> int | float | str:
    if NUMBER.fullmatch(item.text):
        value = float(item.text)
        if math.isfinite(value):
            return value
    if NUMBER.fullmatch(item.text) or _NOT_A_NUMBER.fullmatch(item.text):
        raise line.error(NOT_FINITE, item.position)
    _check(line, item)
    return _plain(item.text)
