"""What each kernel may read and write, by its PTX: variables of the module, and memory behind its parameters.

A value is followed by what it may be an address of, in whatever order, until nothing is added: an instruction that
moves or computes gives what it reads to what it writes, and an address that is stored may come back from any load
from memory. So what is found is everything that happens, and perhaps more.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from evaluator.stages.compile.kernel_entries import module_variables

_FUNCTION: Final = re.compile(
    r"^[^\S\n]*(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\s*(?:\([^()]*\)\s*)?(?P<name>[\w$]+)\s*"
    r"(?:\((?P<parameters>[^()]*)\))?[^{;]*(?P<opens>[{;])",
    re.MULTILINE,
)
_PARAMETER: Final = re.compile(r"([\w$]+)\s*(?:\[\d+\])?\s*(?:,|$)")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_NAME: Final = re.compile(r"[%A-Za-z_$][\w$.]*")
_PLACE: Final = re.compile(r"\[([^\[\]]*)\]")
_OFFSET: Final = re.compile(r"\+\s*(\d+)")
_WRITES: Final = (
    "st.",
    "st ",
    "red.",
    "atom.",
    "wmma.store",
    "discard",
    "multimem.red",
    "multimem.st",
    "cp.reduce",
    "tensormap.replace",
)
_COPIES: Final = ("cp.async",)
"""Their first place is written, the others are read."""
_PLACES_IN_SOURCE: Final = re.compile(r"^[^\S\n]*\.loc\b[^\n]*$", re.MULTILINE)
_BEFORE: Final = re.compile(r"^(?:[{}]\s*|[\w$]+:\s+)*(?:@!?%?\w+\s+)?")
"""Braces, labels and a predicate before an instruction."""
_NEAR: Final = re.compile(r"\.(?:shared|local|param)\b")
"""State spaces that are no memory of the device."""
_ADDRESS_BYTES: Final = 8

Root: TypeAlias = str | tuple[int, int | None]
"""What an address begins at: a variable, or a parameter with the byte that held it; None is any byte."""
ANYWHERE: Final = "*"
"""An address of which nobody knows where it begins: one that was loaded from memory."""


@dataclass(frozen=True)
class Uses:
    """Of one kernel, with the functions that it calls."""

    reads: frozenset[Root]
    writes: frozenset[Root]

    def may_write(self, parameter: int, at: int) -> bool:
        """Whether memory behind the address at byte `at` of a parameter, from 0 on."""
        return not {(parameter, at), (parameter, None), ANYWHERE}.isdisjoint(self.writes)

    def may_read(self, parameter: int, at: int) -> bool:
        """Whether memory behind the address at byte `at` of a parameter. Not what is only added to, by `red`."""
        return not {(parameter, at), (parameter, None), ANYWHERE}.isdisjoint(self.reads)

    @property
    def variables(self) -> frozenset[str]:
        """Those of the module that it reads or writes."""
        return frozenset(one for one in self.reads | self.writes if isinstance(one, str) and one != ANYWHERE)

    @property
    def read_variables(self) -> frozenset[str]:
        """Those of the module that it reads."""
        return frozenset(one for one in self.reads if isinstance(one, str) and one != ANYWHERE)

    @property
    def written_variables(self) -> frozenset[str]:
        """Those of the module that it writes."""
        return frozenset(one for one in self.writes if isinstance(one, str) and one != ANYWHERE)


class MemoryUses:
    """Of all kernels of a program."""

    def __init__(self, ptx: str) -> None:
        self._ptx = ptx
        self._known: dict[str, Uses] = {}

    def of(self, symbol: str) -> Uses:
        """Of one kernel, by its name in the PTX."""
        if symbol not in self._known:
            own = self._body(symbol)
            reads, writes = set(own.reads), set(own.writes)
            seen, left = {symbol}, list(own.calls)
            while left:
                name = left.pop()
                if name in seen or name not in self._functions:
                    continue
                seen.add(name)
                called = self._body(name)
                # What a function gets is followed to the call, and counts as written there.
                reads |= {one for one in called.reads if isinstance(one, str)}
                writes |= {one for one in called.writes if isinstance(one, str)}
                left += called.calls
            self._known[symbol] = Uses(frozenset(reads), frozenset(writes))
        return self._known[symbol]

    @cached_property
    def _variables(self) -> frozenset[str]:
        return frozenset(module_variables(self._ptx))

    @cached_property
    def _functions(self) -> Mapping[str, tuple[str, str]]:
        """Parameters and body of each, by its name."""
        text = _COMMENT.sub("", self._ptx)
        found = {}
        for match in _FUNCTION.finditer(text):
            if match["opens"] == "{":
                found[match["name"]] = (match["parameters"] or "", text[match.end() : _end(text, match.end())])
        return found

    def _body(self, name: str) -> "_Body":
        parameters, text = self._functions.get(name, ("", ""))
        return _Body(parameters, text, self._variables, frozenset(self._functions))


def _end(text: str, start: int) -> int:
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.start()
    return len(text)


class _Body:
    """One function by itself."""

    def __init__(self, parameters: str, text: str, variables: frozenset[str], functions: frozenset[str]) -> None:
        self.parameters = {name: at for at, name in enumerate(_PARAMETER.findall(parameters.strip()))}
        self.variables, self.functions = variables, functions
        self.reads: set[Root] = set()
        self.writes: set[Root] = set()
        self.calls: set[str] = set()
        self._held: dict[str, set[Root]] = defaultdict(set)
        """What each register may be an address of; of stored ones, under "memory"."""
        lines = list(_instructions(text))
        before = -1
        while before != (before := sum(map(len, self._held.values()))):
            for line in lines:
                self._carry_out(line)

    def _carry_out(self, line: str) -> None:
        code, _, rest = line.partition(" ")
        places = _PLACE.findall(rest)
        if code.startswith("ld.param") or (code.startswith("ld") and self._of_parameter(places)):
            self._add(self._destinations(rest), self._parameter(places[0], ".v" in code) if places else set())
        elif code.startswith("call"):
            self._call(rest)
        elif code.startswith("st.param"):
            # What is passed to a function may be written there, and come back.
            passed = self._roots(rest.partition("]")[2])
            self.reads |= passed
            self.writes |= passed
            self._held["memory"] |= passed
        elif f"{code} ".startswith(_WRITES):
            first = self._roots(places[0]) if places else set()
            unknown = not first and not _NEAR.search(code)
            self.writes |= {ANYWHERE} if unknown else first
            for place in places:
                self.reads |= self._roots(place) if code.startswith(("atom", "cp")) else set()
            if code.startswith("atom"):
                self._add(self._destinations(rest), self._held["memory"])
            self._held["memory"] |= self._roots(rest.partition("]")[2])
        elif code.startswith(_COPIES):
            for number, place in enumerate(places):
                (self.reads if number else self.writes).update(self._roots(place))
        elif places:
            # A load, of whatever kind; the text before its place is what it loads into.
            for place in places:
                self.reads |= self._roots(place)
            self._add(self._destinations(rest), self._held["memory"])
        else:
            into, _, given = rest.partition(",") if not rest.startswith("{") else rest.partition("}")
            self._add(_NAME.findall(into), self._roots(given))

    def _call(self, rest: str) -> None:
        named = set(_NAME.findall(rest)) & self.functions
        # By a pointer it may be any.
        self.calls |= named or self.functions
        passed = self._roots(rest)
        self.reads |= passed
        self.writes |= passed

    def _destinations(self, rest: str) -> list[str]:
        return _NAME.findall(rest.partition("[")[0])

    def _add(self, names: list[str], roots: set[Root]) -> None:
        if roots:
            for name in names:
                self._held[name] |= roots

    def _of_parameter(self, places: list[str]) -> bool:
        return any(isinstance(root, tuple) and root[1] == _SPACE for place in places for root in self._roots(place))

    def _parameter(self, place: str, several: bool) -> set[Root]:
        """What is loaded from a place in the parameters: addresses, each by the byte where it is held."""
        found: set[Root] = set()
        for name in _NAME.findall(place):
            if name in self.parameters:
                offset = _OFFSET.search(place)
                at = int(offset[1]) if offset else 0
                found |= {(self.parameters[name], at + more) for more in ((0, _ADDRESS_BYTES) if several else (0,))}
            else:
                found |= {(root[0], None) for root in self._held[name] if isinstance(root, tuple)}
        return found or set(self._held["memory"])

    def _roots(self, text: str) -> set[Root]:
        found: set[Root] = set()
        for name in _NAME.findall(text):
            if name in self._held:
                found |= self._held[name]
            elif name in self.variables:
                found.add(name)
            elif name in self.parameters:
                found.add((self.parameters[name], _SPACE))
        return found


_SPACE: Final = -1
"""In the place of a byte: an address of the parameters themselves."""


def _instructions(text: str) -> Iterator[str]:
    for piece in _PLACES_IN_SOURCE.sub("", text).split(";"):
        line = _BEFORE.sub("", " ".join(piece.split()))
        if line and not line.startswith("."):
            yield line
