"""The outline of a CUDA text from its syntax tree: functions and their side, loops without an end, lasting state."""

import re
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

# Counts, not seconds, so that the same text always gives the same findings. The grammar is ambiguous for rows of
# `a<b<c`, where the parser's work grows with the square; honest text needs a few hundred steps.
_MAX_STEPS = 12_000
# But what one step costs grows with the errors before it, as in rows of `[[a]]`, of which 100 KiB take minutes.
# 1 MiB of what compiles takes 0.3 s of a processor, and comes nowhere near this.
_MAX_PARSE_S = 4.0
_MAX_NODES = 600_000
_MAX_DEPTH = 1_500

_LOOPS = frozenset({"while_statement", "for_statement", "do_statement", "for_range_loop"})
_SURROUNDINGS = frozenset(
    {"switch_statement", "lambda_expression", "class_specifier", "struct_specifier", "template_declaration"}
)
_WAYS_OUT = frozenset({"return_statement", "goto_statement", "throw_statement", "co_return_statement"})
_LEAVES = re.compile(r"\b(?:__trap|exit|abort|__exit|asm|__asm__|longjmp)\b")
_LASTING = re.compile(r"\b__(?:device|managed)__\b")
_CONSTANT = re.compile(r"\b(?:const|constexpr|__constant__|__shared__|typedef|using|extern)\b")
_DEVICE = re.compile(r"\b__(?:device|global)__\b")
_ALLOCATES = re.compile(r"(?<![\w.>])(?:malloc\s*\(|new\b(?!\s*\())")
_RELEASES = re.compile(r"\b(?:free\s*\(|delete\b)")


class RuleMatch(NamedTuple):
    """A rule that fired, and where."""

    rule: str
    offset: int
    found: str


@dataclass(frozen=True)
class Outline:
    """What the tree says."""

    complete: bool
    """False when the text was too large or too deep to be walked to its end."""
    functions: frozenset[str] = frozenset()
    """Names of the functions that the text defines."""
    places: tuple[RuleMatch, ...] = ()
    spans: tuple[tuple[int, int, bool], ...] = ()
    """Start, end and device-or-not of each function, by start."""

    def side(self, offset: int) -> Literal["device", "host", "outside"]:
        """Whether an offset is in a device function, in a host function or outside all that were found."""
        index = bisect_right(self.spans, (offset, 1 << 60, True)) - 1
        # Functions nest only through local classes, so a short look back finds the innermost.
        for start, end, device in reversed(self.spans[max(0, index - 8) : index + 1]):
            if start <= offset < end:
                return "device" if device else "host"
        return "outside"


@cache
def _language() -> Language:
    return Language(tree_sitter_cuda.language())


def _plain(code: str) -> bytes:
    """One byte for each character, so that offsets into the tree are offsets into the text."""
    return code.encode("ascii", errors="replace").replace(b"\0", b" ")


@dataclass
class _Loop:
    offset: int
    end: int
    endless: bool
    header: str
    empty: bool
    left: bool = False
    returns: bool = False


@dataclass
class _Walk:
    """What has been seen so far, and what is open around the node at hand."""

    code: str
    wrappers: frozenset[str]
    """Macros whose bodies say `__device__` or `__global__`."""
    places: list[RuleMatch] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    spans: list[tuple[int, int, bool]] = field(default_factory=list)
    open: list[tuple[int, str, object]] = field(default_factory=list)
    """Depth, kind and value of loops, switches, functions, lambdas and templates around the node."""

    def enter(self, node: Node, depth: int) -> None:
        kind = node.type
        start, end = node.start_byte, node.end_byte
        if kind in _LOOPS:
            self.open.append((depth, "loop", self._loop(node)))
        elif kind in _SURROUNDINGS:
            self.open.append((depth, kind, None))
        elif kind == "function_definition":
            self.open.append((depth, kind, self._function(node)))
        elif kind == "break_statement":
            inner = next((entry for entry in reversed(self.open) if entry[1] in ("loop", "switch_statement")), None)
            if inner and isinstance(inner[2], _Loop):
                inner[2].left = True
        elif kind in _WAYS_OUT:
            inner = next((entry for entry in reversed(self.open) if entry[1] in ("loop", "lambda_expression")), None)
            if inner and isinstance(inner[2], _Loop):
                inner[2].left = inner[2].returns = True
        elif kind == "declaration":
            self._declaration(self.code[start : min(end, start + 400)], start, node)
        elif kind == "template_function" or kind == "template_type":
            self._instance(self.code[start : min(end, start + 200)], start)

    def leave(self) -> None:
        _, kind, value = self.open.pop()
        if kind != "loop" or not isinstance(value, _Loop):
            return
        if value.returns:
            outer = next((entry for entry in reversed(self.open) if entry[1] in ("loop", "lambda_expression")), None)
            if outer and isinstance(outer[2], _Loop):
                outer[2].left = outer[2].returns = True
        if (
            value.endless
            and not value.left
            and not _LEAVES.search(self.code, value.offset, min(value.end, value.offset + 20_000))
        ):
            self.places.append(RuleMatch("unbounded-loop", value.offset, f"`{value.header}` without a way out"))
        elif value.empty and not value.endless:
            self.places.append(RuleMatch("spin-wait", value.offset, f"`{value.header}` that only waits"))

    def _loop(self, node: Node) -> _Loop:
        body = node.child_by_field_name("body")
        condition = node.child_by_field_name("condition")
        start = node.start_byte
        test = self.code[condition.start_byte : condition.end_byte].strip("() \n\t") if condition else ""
        if node.type == "for_statement":
            endless = test in ("", "true", "1")
            header = "for (;;)" if endless else f"for (...; {test[:40]}; ...)"
        elif node.type == "for_range_loop":
            endless, header = False, "for"
        else:
            endless = test in ("true", "1", "!0", "!false")
            header = f"while ({test[:60]})"
        inside = self.code[body.start_byte : body.end_byte] if body and body.end_byte - body.start_byte < 200 else "?"
        inside = re.sub(r"__nanosleep\s*\([^()]*\)|__threadfence\w*\s*\(\s*\)|[{}\s;]", "", inside)
        # `for (...; i < n; ...);` counts by itself; waiting is a condition that reads memory or calls something.
        waits = node.type in ("while_statement", "do_statement") and bool(re.search(r"[(*\[]|\b\w+\s*[!=]=", test))
        return _Loop(start, node.end_byte, endless, header, waits and not inside)

    def _function(self, node: Node) -> bool:
        body = node.child_by_field_name("body")
        head = self.code[node.start_byte : min(body.start_byte if body else node.end_byte, node.start_byte + 2_000)]
        device = bool(_DEVICE.search(head)) or not self.wrappers.isdisjoint(re.findall(r"\w+", head))
        self.spans.append((node.start_byte, node.end_byte, device))
        if name := re.search(r"([A-Za-z_]\w*)\s*\((?!.*__launch_bounds__)", head, re.DOTALL):
            self.functions.add(name[1])
        if device and body and body.end_byte - body.start_byte < 200_000:
            inside = self.code[body.start_byte : body.end_byte]
            if (made := _ALLOCATES.search(inside)) and not _RELEASES.search(inside):
                found = f"`{made[0].rstrip('( ')}` without a matching release in the same function"
                self.places.append(RuleMatch("device-allocation", body.start_byte + made.start(), found))
        return device

    def _declaration(self, text: str, offset: int, node: Node) -> None:
        head = re.split(r"[={;]", text, maxsplit=1)[0]
        around = next((entry for entry in reversed(self.open) if entry[1] == "function_definition"), None)
        constant = _CONSTANT.search(head) and not re.search(r"\*\s*(?!const)\w+\s*\Z", head)
        name = (re.findall(r"[A-Za-z_]\w*", re.sub(r"\[.*", "", head, flags=re.DOTALL)) or ["?"])[-1]
        if around:
            if around[2] and re.search(r"\bstatic\b", head) and not constant and not _LASTING.search(head):
                self.places.append(RuleMatch("static-local", offset, f"static variable `{name[:60]}` in device code"))
            return
        declarator = node.child_by_field_name("declarator")
        if (
            declarator is None
            or declarator.type == "function_declarator"
            or (self.open and self.open[-1][1] == "template_declaration")
        ):
            return
        if _LASTING.search(head):
            if not constant:
                self.places.append(RuleMatch("module-state", offset, f"device variable `{name[:60]}`"))
        elif declarator.type == "init_declarator" and not re.search(r"\bconstexpr\b|__constant__|__shared__", head):
            value = declarator.child_by_field_name("value")
            if value is not None and value.type in (
                "call_expression",
                "argument_list",
                "new_expression",
                "lambda_expression",
            ):
                self.places.append(
                    RuleMatch("static-initialiser", offset, f"`{head.strip()[:60]}`, set by code before main")
                )

    def _instance(self, text: str, offset: int) -> None:
        if not any(entry[1] == "template_declaration" for entry in self.open):
            return
        if step := re.match(r"(\w+)\s*<[^;{}]*\b\w+\s*[-+/*]\s*\w+[^;{}]*>\Z", text):
            owner = step[1] in self.functions or any(entry[1].endswith("_specifier") for entry in self.open)
            if owner:
                self.places.append(RuleMatch("template-recursion", offset, f"`{text[:60]}` inside a template"))


def outline(code: str) -> Outline:
    """Parse and walk, both with a bounded cost. Text that does not parse still gives what could be made out."""
    data = _plain(code)
    steps, end_s = 0, time.thread_time() + _MAX_PARSE_S

    def enough(*_: object) -> bool:
        nonlocal steps
        steps += 1
        return steps > _MAX_STEPS or time.thread_time() > end_s

    try:
        tree = Parser(_language()).parse(lambda at, _point: data[at : at + 65_536], progress_callback=enough)
    except ValueError:
        return Outline(complete=False)
    wrapping = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?!\()[^\n]*__(?:device|global)__", code, re.MULTILINE)
    walk = _Walk(code, frozenset(wrapping))
    complete = _visit(walk, tree.root_node)
    return Outline(complete, frozenset(walk.functions), tuple(walk.places), tuple(sorted(walk.spans)))


_SEEN = _LOOPS | _WAYS_OUT | _SURROUNDINGS
_SEEN |= {"function_definition", "break_statement", "declaration", "template_function", "template_type"}


def _visit(walk: _Walk, root: Node) -> bool:
    cursor = root.walk()
    depth = nodes = 0
    while True:
        nodes += 1
        if nodes > _MAX_NODES:
            return False
        node = cursor.node
        if node is not None and node.type in _SEEN:
            walk.enter(node, depth)
        if cursor.goto_first_child():
            depth += 1
            if depth > _MAX_DEPTH:
                return False
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return True
            depth -= 1
            while walk.open and walk.open[-1][0] > depth:
                walk.leave()
        while walk.open and walk.open[-1][0] >= depth:
            walk.leave()
