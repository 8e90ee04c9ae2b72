"""Integer expressions over a problem's sizes: the extents and arguments of a launch plan.

Grammar (never `eval`): integers, names, `+ - * // %`, parentheses, `ceil_div(a, b)`, `min(a, …)`, `max(a, …)`.
Bounded: at most 256 characters, nesting depth 32, and every intermediate result below 2**63 in magnitude, so that
no expression costs more than it is long.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MAX_CHARACTERS: Final = 256
MAX_DEPTH: Final = 32
LIMIT: Final = 1 << 63

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)(?![\w.])|(?P<name>[A-Za-z_]\w*)|(?P<operator>//|\*\*|[-+*%/(),]))", re.ASCII
)
_FUNCTIONS: Final = ("ceil_div", "min", "max")


class ExpressionError(ValueError):
    """The text is not an expression that a plan may hold. `position` is the offset of the culprit in `text`."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.text = text
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason}\n{caret(self.text, self.position)}"


def caret(text: str, position: int) -> str:
    """`text` on one line with a caret under `position`; of a long one the part around it, for 80 columns."""
    start = max(0, min(position - _BEFORE, len(text) - _SHOWN))
    shown = "".join(character if character.isprintable() else " " for character in text[start : start + _SHOWN])
    return f"    {shown}\n    {' ' * (position - start)}^"


_SHOWN: Final = 72
"""Characters that are quoted: an indent of four and a margin are left."""
_BEFORE: Final = 12
"""Of them, before the culprit, if there is more behind it."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


def evaluate_expression(text: str | int, names: Mapping[str, int]) -> int:
    """The value of `text` with `names` bound. Raises ExpressionError; never takes more than microseconds."""
    if isinstance(text, int):
        return _bounded_literal(text)
    if len(text) <= MAX_CHARACTERS:
        # Most are the name of a size alone, and are evaluated thousands of times in an evaluation.
        token, *more = _tokens(text)
        if len(more) == 1 and token.text in names:
            return _bounded(names[token.text], text, token.position)
    return _Reader(text, names).whole()


def names_in(text: str | int) -> tuple[str, ...]:
    """The names that `text` reads, in order of appearance. Raises ExpressionError where it does not parse."""
    if isinstance(text, int):
        _bounded_literal(text)
        return ()
    reader = _Reader(text, None)
    reader.whole()
    return tuple(dict.fromkeys(reader.names_read))


def _bounded_literal(value: int) -> int:
    # The decimal text of a huge integer is costly, and above 4300 digits Python refuses to make it.
    shown = str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"
    return _bounded(value, shown, 0)


def _bounded(value: int, text: str, position: int) -> int:
    if not -LIMIT < value < LIMIT:
        raise ExpressionError("the result does not fit in 63 bits", text, position)
    return value


@lru_cache(maxsize=1024)
def _tokens(text: str) -> tuple[_Token, ...]:
    tokens: list[_Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            culprit = position + len(text[position:]) - len(text[position:].lstrip())
            digit = text[culprit] in "0123456789"
            reason = "not a plain integer" if digit else "expected an integer, a name or an operator"
            raise ExpressionError(reason, text, culprit)
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        position = match.end()
    return (*tokens, _Token("end", "", end))


class _Reader:
    """Recursive descent that computes as it parses. Without `names` it only parses: every operation gives 1."""

    def __init__(self, text: str, names: Mapping[str, int] | None) -> None:
        if len(text) > MAX_CHARACTERS:
            raise ExpressionError(f"an expression has at most {MAX_CHARACTERS} characters", text, MAX_CHARACTERS)
        self.text = text
        self.names = names
        self.names_read: list[str] = []
        self.tokens = _tokens(text)
        self.index = 0
        self.depth = -1

    def _peek(self) -> _Token:
        return self.tokens[self.index]

    def _take(self) -> _Token:
        token = self.tokens[self.index]
        self.index += 1
        return token

    def _fail(self, reason: str, token: _Token) -> ExpressionError:
        return ExpressionError(reason, self.text, token.position)

    def _expect(self, operator: str) -> None:
        token = self._take()
        if token.text != operator:
            raise self._fail(f"expected '{operator}'", token)

    def whole(self) -> int:
        value = self._sum()
        if self._peek().kind != "end":
            raise self._fail("expected an operator or the end", self._peek())
        return value

    def _sum(self) -> int:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._fail(f"nested deeper than {MAX_DEPTH}", self._peek())
        value = self._product()
        while self._peek().text in ("+", "-"):
            operator = self._take()
            right = self._product()
            value = self._result(value + right if operator.text == "+" else value - right, operator)
        self.depth -= 1
        return value

    def _product(self) -> int:
        value = self._atom()
        while self._peek().text in ("*", "//", "%", "/", "**"):
            operator = self._take()
            if operator.text == "/":
                raise self._fail("'/' is not an integer division: write '//' or ceil_div(a, b)", operator)
            if operator.text == "**":
                raise self._fail("'**' is not allowed: write the product out", operator)
            right = self._atom()
            if operator.text == "*":
                value = self._result(value * right, operator)
            else:
                value = self._divide(operator, value, right)
        return value

    def _result(self, value: int, operator: _Token) -> int:
        return 1 if self.names is None else _bounded(value, self.text, operator.position)

    def _divide(self, operator: _Token, left: int, right: int) -> int:
        if self.names is None:
            return 1
        if right == 0:
            raise self._fail("division by zero", operator)
        if operator.text == "%":
            return left % right
        return self._result(-(-left // right) if operator.text == "ceil_div" else left // right, operator)

    def _atom(self) -> int:
        token = self._take()
        if token.text == "-":
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self._fail(f"nested deeper than {MAX_DEPTH}", token)
            value = -self._atom()
            self.depth -= 1
            return value
        if token.kind == "number":
            return _bounded(int(token.text), self.text, token.position)
        if token.text == "(":
            value = self._sum()
            self._expect(")")
            return value
        if token.kind == "name" and self._peek().text == "(":
            return self._call(token)
        if token.kind == "name":
            self.names_read.append(token.text)
            if self.names is None:
                return 1
            if token.text not in self.names:
                known = ", ".join(sorted(self.names)) or "none"
                raise self._fail(f"unknown name '{token.text}' (known here: {known})", token)
            return _bounded(self.names[token.text], self.text, token.position)
        raise self._fail("expected an integer, a name or '('", token)

    def _call(self, function: _Token) -> int:
        if function.text not in _FUNCTIONS:
            raise self._fail(f"unknown function '{function.text}' (known: {', '.join(_FUNCTIONS)})", function)
        self._expect("(")
        values = [self._sum()]
        while self._peek().text == ",":
            self._take()
            values.append(self._sum())
        self._expect(")")
        if function.text == "ceil_div":
            if len(values) != 2:
                raise self._fail("ceil_div takes two values", function)
            return self._divide(function, values[0], values[1])
        return min(values) if function.text == "min" else max(values)
