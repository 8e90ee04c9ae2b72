"""A source text as the preprocessor reads it: line splices, comments, literals and directives.

Screening must see what the compiler sees: an include that is split by backslashes and comments is an include, and the
same words in a comment or a raw string are not. The text is read in the order of the C++ standard (phases 1 to 3,
[lex.phases]; raw strings undo splices), in linear time and without recursion.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from common.launch_directives import PREFIX

Kind: TypeAlias = Literal["code", "splice", "comment", "line_comment", "string", "char", "raw", "header"]
Piece: TypeAlias = tuple[Kind, int, int]
"""A stretch of the text: kind, start, end, in characters."""

# Possessive quantifiers keep every match linear. GCC also splices where blanks stand between backslash and newline.
_SPLICE = r"\\[ \t\v\f\r]*\n"
_S = rf"(?:{_SPLICE})*+"
_COMMENT = rf"/{_S}\*(?s:.*?)(?:\*{_S}/|\Z)"
_BLANK = rf"(?:[ \t\v\f\r]|{_SPLICE}|{_COMMENT})*+"
_WORDS = "|".join(_S.join(word) for word in ("include_next", "include", "import", "embed"))
_HAS = "|".join(_S.join(word) for word in ("__has_include_next", "__has_include", "__has_embed"))
_INSIDE = rf"(?:{_SPLICE}|\\{_S}[^\n]|[^{{quote}}\\\n])*+"
_SUFFIX = r"(?:[A-Za-z_$][\w$]*+)?"

_PIECE = re.compile(
    rf"(?P<splice>{_SPLICE})"
    rf"|(?P<line_comment>/{_S}/(?:{_SPLICE}|[^\n])*+)"
    rf"|(?P<comment>{_COMMENT})"
    rf"|(?P<include>(?:(?:\#|%{_S}:){_BLANK}(?:{_WORDS}){_BLANK}|(?:{_HAS}){_BLANK}\({_BLANK})(?=[<\"]))"
    r"|(?P<raw>(?<![\w$])(?:u8|[uUL])?R" + _S + r'"(?P<fence>[^()\\\s"]{0,16})\()'
    rf'|(?P<string>"{_INSIDE.format(quote=chr(34))}(?:"{_SUFFIX})?)'
    rf"|(?P<char>'{_INSIDE.format(quote=chr(39))}(?:'{_SUFFIX})?)"
    r"|(?P<number>(?<![\w$])\.?[0-9](?:[eEpP][+-]|'\w|[\w.])*+)"
)
_STRING = re.compile(rf'"{_INSIDE.format(quote=chr(34))}(?:"{_SUFFIX})?')
_TAIL = re.compile(rf"[\w$](?:{_SPLICE})+\Z")
_SPLICES = re.compile(_SPLICE)
_TRIGRAPHS = dict(zip("=/'()!<>-", "#\\^[]|{}~", strict=True))
_PLAN_LINE = re.compile(rf"{PREFIX}[^\n\\?]*")
_TRIGRAPH = re.compile(r"\?\?([=/'()!<>\-])")


def pieces(text: str) -> Iterator[Piece]:
    """Cut `text` into stretches that cover it without a gap."""
    position = cut = 0
    headers = _Headers(text)
    while match := _PIECE.search(text, position):
        kind = match.lastgroup
        start, end = match.span()
        if kind == "number":
            position = end
            continue
        if kind == "include":
            kind, header_end = "header", headers.end(end)
            if header_end is None:
                position = start + 1
                continue
            yield from _without_header(text, cut, end)
            start, cut, end = end, end, header_end
        if kind == "raw":
            if _TAIL.search(text, max(0, start - 80), start):
                # A splice glues the prefix to a name before it, so this is a name and then a plain string.
                start = text.index('"', start)
                string = _STRING.match(text, start)
                kind, end = "string", string.end() if string else start + 1
            else:
                closing = f'){match["fence"]}"'
                found = text.find(closing, end)
                kind, end = "raw", len(text) if found < 0 else found + len(closing)
        if cut < start:
            yield "code", cut, start
        yield _KINDS[kind or ""], start, end
        position = cut = end
    if cut < len(text):
        yield "code", cut, len(text)


class _Headers:
    """Where header names end. Each line is looked through once, however many names it begins and does not end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[str, tuple[int, int]] = {}
        """For a character: that it stands nowhere from the first offset on before the second."""

    def end(self, start: int) -> int | None:
        """The end of the header name that begins at `start` with `<` or a quote; None where its line ends before."""
        close = self._find(">" if self._text[start] == "<" else '"', start + 1)
        return close + 1 if close < self._find("\n", start + 1) else None

    def _find(self, character: str, start: int) -> int:
        """Where the character stands next, from `start` on; the text's end where nowhere."""
        since, found = self._found.get(character, (0, -1))
        if not since <= start <= found:
            found = self._text.find(character, start)
            found = len(self._text) if found < 0 else found
            self._found[character] = start, found
        return found


_KINDS: dict[str, Kind] = {
    "splice": "splice",
    "line_comment": "line_comment",
    "comment": "comment",
    "header": "header",
    "raw": "raw",
    "string": "string",
    "char": "char",
}
_GAP = re.compile(rf"(?P<splice>{_SPLICE})|(?P<comment>{_COMMENT})")


def _without_header(text: str, start: int, end: int) -> Iterator[Piece]:
    """The words before a header name, which hold only code, splices and comments."""
    for match in _GAP.finditer(text, start, end):
        if start < match.start():
            yield "code", start, match.start()
        yield _KINDS[match.lastgroup or ""], match.start(), match.end()
        start = match.end()
    if start < end:
        yield "code", start, end


class Token(NamedTuple):
    """A literal or a header name, where `SourceText.code` only has a pair of quotes or angle brackets."""

    offset: int
    """Offset into `code`."""
    text: str
    """What is written, without splices, with its quotes and escapes."""

    @property
    def content(self) -> str:
        """The text between the quotes; the usual escapes are undone, raw strings are taken as they stand."""
        opening = self.text.find('"')
        if "R" in self.text[: max(opening, 0)]:
            return self.text[self.text.find("(") + 1 : self.text.rfind(")")]
        inner = self.text[opening + 1 : max(self.text.rfind('"'), opening + 1)]
        return _ESCAPE.sub(_unescape, inner)


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}


def _unescape(match: re.Match[str]) -> str:
    hexadecimal, octal, universal, letter = match.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    code = int(octal, 8) if octal else int(hexadecimal or universal, 16)
    return chr(code) if code < 0xD800 else "?"


@dataclass(frozen=True)
class Directive:
    """A preprocessor directive on its logical line."""

    name: str
    """`include`, `define`, …; `line` for `# 12 "file"` too, and `import` also without the `#`."""
    argument: str
    """The rest of the line, comments and splices removed, literals as written."""
    offset: int
    end: int
    """Where it starts and ends in `code`."""


_DIRECTIVE = re.compile(
    r"^[ \t\v\f]*+(?:(?:\#|%:)[ \t\v\f]*+(?P<name>[A-Za-z_]\w*+|(?=[0-9]))(?P<rest>[^\n]*+)"
    r'|(?:export\s+)?(?P<module>import)[ \t\v\f]*+(?P<unit>["<][^\n]*+))',
    re.MULTILINE,
)


@dataclass(frozen=True)
class SourceText:
    """The text after splices and comments are gone. Offsets are into `code`."""

    code: str
    """Each comment is one space, each literal an empty pair of quotes, each header name `""` or `<>`."""
    starts: tuple[int, ...]
    """For each line of the source, the offset at which it starts; several may share one."""
    tokens: tuple[Token, ...]
    hidden: tuple[int, ...]
    """Lines of source that a backslash at the end of a `//` comment has made part of that comment."""

    def line(self, offset: int) -> int:
        """The line of the source, from 1."""
        return bisect_right(self.starts, offset)

    def written(self, start: int, end: int) -> str:
        """`code[start:end]` with its literals put back."""
        parts = []
        for token in self.tokens_in(start, end):
            parts.append(self.code[start : token.offset])
            parts.append(token.text)
            start = token.offset + 2
        return "".join(parts) + self.code[start:end]

    def tokens_in(self, start: int, end: int) -> tuple[Token, ...]:
        """The literals and header names in `code[start:end]`."""
        return self.tokens[bisect_left(self._offsets, start) : bisect_left(self._offsets, end)]

    @cached_property
    def _offsets(self) -> list[int]:
        return [token.offset for token in self.tokens]

    @cached_property
    def directives(self) -> tuple[Directive, ...]:
        """All directives, except those that stand under `#if 0`."""
        found = []
        dead: list[bool | None] = []
        for match in _DIRECTIVE.finditer(self.code):
            name = match["name"] or ("import" if match["module"] else "line")
            start = match.start("rest") if match["module"] is None else match.start("unit")
            written = self.written(start, match.end()).strip()
            if name in ("if", "ifdef", "ifndef"):
                # None: not known, so both branches count. Only a literal 0 or 1 is certain.
                dead.append(
                    {"0": True, "false": True, "1": False, "true": False}.get(written) if name == "if" else None
                )
            elif name in ("else", "elif", "elifdef", "elifndef") and dead and dead[-1] is not None:
                dead[-1] = not dead[-1] if name == "else" else (None if dead[-1] else True)
            elif name == "endif" and dead:
                dead.pop()
            elif True not in dead:
                found.append(Directive(name, written, match.start(), match.end()))
        return tuple(found)

    @staticmethod
    def read(text: str) -> "SourceText":
        """Read a text in the way of `-std=c++17`: without trigraphs."""
        out: list[str] = []
        starts = [0]
        tokens: list[Token] = []
        hidden: list[int] = []
        length = 0
        for kind, start, end in pieces(text):
            part = text[start:end]
            shown = part
            if kind == "line_comment":
                hidden += [
                    len(starts) + 1 + index
                    for index, line in enumerate(part.split("\n")[1:])
                    if line.strip(" \t\\/*|_-") and not line.lstrip().startswith("//")
                ]
            if kind == "splice":
                shown = ""
            elif kind in ("comment", "line_comment"):
                shown = " "
            elif kind != "code":
                written = part if kind == "raw" else _SPLICES.sub("", part)
                shown = "''" if kind == "char" else "<>" if kind == "header" and part[0] == "<" else '""'
                tokens.append(Token(length, written))
            if kind == "code":
                newline = part.find("\n")
                while newline >= 0:
                    starts.append(length + newline + 1)
                    newline = part.find("\n", newline + 1)
            elif newlines := part.count("\n"):
                starts += [length + min(1, len(shown))] * newlines
            out.append(shown)
            length += len(shown)
        return SourceText("".join(out), tuple(starts), tuple(tokens), tuple(hidden))


def without_trigraphs(text: str) -> str:
    """The text as `-std=c++14` and older read it: `??=` is `#`, `??/` is a backslash, and so on."""
    return _TRIGRAPH.sub(lambda match: _TRIGRAPHS[match[1]], text)


def without_plan(text: str) -> str:
    """`text` with its launch directives (`common.launch_plan`) as empty comments: the same lines, the same program.

    One that might end in a line splice, a trigraph's too, is left as it is: the compiler would read another program.
    """
    if PREFIX not in text:
        return text
    parts = []
    for kind, start, end in pieces(text):
        piece = text[start:end]
        at_start = start == 0 or text[start - 1] == "\n"
        parts.append("//" if kind == "line_comment" and at_start and _PLAN_LINE.fullmatch(piece) else piece)
    return "".join(parts)
