"""What a solution compiles as one text of C++, in which the names of several modules do not meet."""

import re
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field, StrictInt

from common.wire import Wire
from evaluator.stages.screen.lexer import pieces

_ALWAYS: Final = "#include <torch/extension.h>"
_INCLUDES: Final = re.compile(r"\s*#\s*include\b")
_MOST_CHARS: Final = 1 << 18
"""Of the texts of which names are looked up, a hundred times those of solutions: it takes half a second of ours."""
_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
_OPENING: Final = {"{": 1, "(": 1, "}": -1, ")": -1}

_Text = Annotated[str, Field(max_length=1 << 20)]


class CompiledText(Wire):
    """What one call of `load_inline` is given."""

    name: Annotated[str, Field(max_length=200)]
    sources: Annotated[tuple[_Text, ...], Field(max_length=16)]
    cpp: Annotated[StrictInt, Field(ge=0, le=16)]
    """How many of these are `cpp_sources`; the others are `cuda_sources`."""
    lines: Annotated[tuple[Annotated[StrictInt, Field(ge=0, le=1 << 20)], ...], Field(max_length=16)]
    """Where each begins in the solution; 0 where that cannot be told."""
    functions: (
        Annotated[tuple[Annotated[str, Field(max_length=201, pattern=r"^[A-Za-z_]\w*$")], ...], Field(max_length=64)]
        | None
    )
    flags: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=64)]

    @property
    def meaning(self) -> tuple[object, ...]:
        """What is compiled. A name may have a random number in it, so that none is built twice."""
        return self.sources, self.cpp, self.functions, self.flags


def joined(source: str, modules: Sequence[CompiledText]) -> str:
    """All sources as one text, each at the lines that it has in the solution where that can be told.

    `source`: of the solution. Where two modules define the same name, what follows the includes of each is in a
    namespace of its own, which moves no line.
    """
    spaces = _namespaces(modules)
    begun = [
        (_within(space, text), line)
        for module, space in zip(modules, spaces, strict=True)
        for text, line in zip(module.sources, module.lines, strict=True)
    ]
    places = {text: line for text, line in begun if line}
    texts = [text for text, _ in begun if text.strip()]
    lines: list[str] = []
    later: list[str] = []
    for text in sorted(texts, key=lambda one: places.get(one, 1 << 30)):
        at = places.get(text)
        if at is None or at <= len(lines):
            later.append(text)
            continue
        lines += [""] * (at - 1 - len(lines))
        lines += text.split("\n")
    lines += [""] * (source.count("\n") + 1 - len(lines))
    for text in later:
        lines += text.split("\n")
    if any("PYBIND11_MODULE" in text for text in texts):
        lines.append("")
    else:
        defined = " ".join(dict.fromkeys(_definitions(modules, spaces)))
        lines.append(f"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ {defined} }}")
    # As load_inline does; in the first line, so that no line moves.
    first = lines[0]
    return "\n".join([_ALWAYS if not first.strip() else f"{_ALWAYS}\n{first}", *lines[1:]]) + "\n"


def _definitions(modules: Sequence[CompiledText], spaces: Sequence[str]) -> list[str]:
    """What makes each function known to Python, called as `CompiledModule` in the sandbox calls it."""
    made = []
    known: set[str] = set()
    for number, (module, space) in enumerate(zip(modules, spaces, strict=True)):
        for name in module.functions or ():
            called = f"{name}.{number}" if name in known else name
            place = f"{space}::{name}" if space else name
            made.append(f'm.def("{called}", torch::wrap_pybind_function({place}), "{name}");')
        known.update(module.functions or ())
    return made


def _namespaces(modules: Sequence[CompiledText]) -> list[str]:
    """One for each module; empty where none is needed, or none can be."""
    none = [""] * len(modules)
    if len(modules) < 2 or any("PYBIND11_MODULE" in text for module in modules for text in module.sources):
        return none
    if sum(len(text) for module in modules for text in module.sources) > _MOST_CHARS:
        return none
    defined = [_names("\n".join(module.sources)) for module in modules]
    meet = any(one & other for at, one in enumerate(defined) for other in defined[:at])
    fits = all(not text.strip() or _begin(text) is not None for module in modules for text in module.sources)
    return [f"assay_module_{number}" for number in range(len(modules))] if meet and fits else none


def _names(text: str) -> set[str]:
    """What a text may define: each name outside all brackets with `(`, `{`, `=`, `[`, `:` or `;` behind it.

    Nothing hangs on one that it does not define. One pass, for the text is anyone's.
    """
    found, depth, before = set(), 0, ""
    for match in _TOKEN.finditer(_code(text)):
        token = match[0]
        if depth == 0 and token in "({=[:;" and before.isidentifier():
            found.add(before)
        depth = max(0, depth + _OPENING.get(token, 0))
        before = token
    return found - {"__launch_bounds__"}


def _within(space: str, text: str) -> str:
    begin = _begin(text) if space and text.strip() else None
    if begin is None:
        return text
    end = "}" if text.endswith("\n") else "\n}"
    return f"{text[:begin]}namespace {space} {{ {text[begin:]}{end}"


def _begin(text: str) -> int | None:
    """Where code begins behind the last include; None where there is code before it, or none behind it."""
    code = _code(text)
    lines = code.split("\n")
    last = max((number for number, line in enumerate(lines) if _INCLUDES.match(line)), default=-1)
    offset, directive = 0, False
    for number, line in enumerate(lines):
        directive = directive or line.lstrip().startswith("#")
        if line.strip() and not directive:
            return offset + len(line) - len(line.lstrip()) if number > last else None
        directive = directive and line.endswith("\\")
        offset += len(line) + 1
    return None


def _code(text: str) -> str:
    """The text with blanks for comments and letters for literals, character by character."""
    made = []
    for kind, start, end in pieces(text):
        part = text[start:end]
        if kind in ("comment", "line_comment"):
            part = re.sub(r"[^\n]", " ", part)
        elif kind in ("string", "char", "raw"):
            part = re.sub(r"[^\n]", "x", part)
        made.append(part)
    return "".join(made)
