"""What preprocessor directives reach for: paths, macros, and how large macros grow."""

import re
from typing import Literal

from evaluator.stages.screen.lexer import Directive, SourceText

INCLUDES = frozenset({"include", "include_next", "import", "embed"})
PROBES = re.compile(r"\b__has_(?:include(?:_next)?|embed)\s*\(\s*")

_NAME = re.compile(r"[A-Za-z_]\w*")
_TOOLKIT_FOLDER = re.compile(
    r"/(?:usr/local|opt|usr/lib)/cuda[\w.\-]*/(?:targets/[\w\-]+/)?include/[\w/.\-]+\.(?:h|hpp|cuh)"
)
_HEADER = re.compile(r"(?:[\w+\-]+|[\w+.\-]+\.(?:h|hh|hpp|hxx|cuh|cu|inc|inl|ipp|tpp))\Z", re.IGNORECASE)
_FAR = re.compile(r"(?:^|[<\"(,\s])/+\s*(?:[A-Za-z._~]|/)|\.\.\s*/")
_MAX_MACROS_FOLLOWED = 2_000
_MAX_TEXT = 20_000


def judge_path(written: str, computed: bool = False) -> Literal["outside", "odd", "plain"]:
    """Where a path of an include leads: `outside` for a file of the machine, `odd` for what is no plain header.

    `written` still has its quotes or angle brackets. With `computed` it is the text that a macro may expand to, and
    `outside` is said when any part of it is an absolute path or climbs out of a folder.
    """
    if computed:
        return "outside" if _FAR.search(written) else "plain"
    close = ">" if written[0] == "<" else '"'
    path = written[1:].split(close, 1)[0].strip()
    if path.startswith("/"):
        # The toolkit's own headers may be read by anybody; the path is merely clumsy.
        return "odd" if ".." not in path and _TOOLKIT_FOLDER.fullmatch(path) else "outside"
    depth = 0
    for part in path.split("/"):
        depth += -1 if part == ".." else 1 if part not in ("", ".") else 0
        if depth < 0:
            return "outside"
    return "plain" if ".." not in path and _HEADER.match(path.rsplit("/", 1)[-1]) else "odd"


def macros(text: SourceText) -> dict[str, list[Directive]]:
    """All definitions by name; a macro may be defined more than once."""
    found: dict[str, list[Directive]] = {}
    for directive in text.directives:
        if directive.name == "define" and (name := _NAME.match(directive.argument)):
            found.setdefault(name[0], []).append(directive)
    return found


def computed_text(argument: str, defined: dict[str, list[Directive]]) -> str:
    """`argument` and the bodies of all macros that it can reach, as one text of bounded length."""
    parts = [argument]
    seen: set[str] = set()
    ahead = [argument]
    length = 0
    while ahead and len(seen) < _MAX_MACROS_FOLLOWED and length < _MAX_TEXT:
        for name in _NAME.findall(ahead.pop()[:_MAX_TEXT]):
            if name in defined and name not in seen:
                seen.add(name)
                for directive in defined[name][:8]:
                    body = directive.argument[len(name) :]
                    parts.append(body)
                    ahead.append(body)
                    length += len(body)
    return "\n".join(parts)


def reaching(defined: dict[str, list[Directive]], pattern: re.Pattern[str]) -> frozenset[str]:
    """The macros with `pattern` in their bodies, and those that use such a macro, over any number of steps."""
    users: dict[str, list[str]] = {}
    ahead: list[str] = []
    for name, definitions in defined.items():
        body = "\n".join(directive.argument[len(name) :] for directive in definitions)
        if pattern.search(body):
            ahead.append(name)
        for word in set(_NAME.findall(body)):
            if word in defined:
                users.setdefault(word, []).append(name)
    found = set(ahead)
    while ahead:
        for user in users.get(ahead.pop(), ()):
            if user not in found:
                found.add(user)
                ahead.append(user)
    return frozenset(found)


def expansion_sizes(defined: dict[str, list[Directive]]) -> dict[str, float]:
    """About how many tokens each macro grows to. A macro does not expand inside itself."""
    sizes: dict[str, float] = {}
    for root in defined:
        stack = [root]
        opened: set[str] = set()
        while stack:
            name = stack[-1]
            if name in sizes:
                stack.pop()
                continue
            inner = [word for word in _NAME.findall(defined[name][-1].argument[len(name) :]) if word in defined]
            waiting = [
                word for word in dict.fromkeys(inner) if word not in sizes and word not in opened and word != name
            ]
            if name not in opened and waiting:
                opened.add(name)
                stack += waiting
                continue
            sizes[name] = min(1.0 + sum(sizes.get(word, 1.0) for word in inner), 1e18)
            stack.pop()
    return sizes
