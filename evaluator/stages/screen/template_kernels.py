"""Templates of kernels in a source, which are compiled only where something instantiates them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["TemplateKernel", "template_kernels"]

_STATEMENT_ENDS: Final = re.compile("[;{}]")
_TEMPLATE: Final = re.compile(r"\btemplate\s*<")
_KERNEL: Final = re.compile(r">(?:[\w\s]*\s)?__global__")
_NAME: Final = re.compile(r"\b(?!__launch_bounds__)([A-Za-z_]\w*)\s*\(")
_TYPE: Final = re.compile(r"(?:typename|class)\b[\s.]*(\w*)")
_DEFAULT: Final = re.compile(r"=[^,]*")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TYPE_ARGUMENT: Final = "float"
_NUMBER_ARGUMENT: Final = "256"
"""Of a template for a number, which is mostly the threads of a block."""


@dataclass(frozen=True)
class TemplateKernel:
    """One template of a `__global__` function, by what its text says."""

    name: str
    parameters: str
    """Of the template, as written between `<` and `>`."""
    arguments: str
    """Of the function, as written between `(` and `)`; empty where that is not to be told."""

    def instantiation(self, given: str = "") -> str:
        """The statement that instantiates it, for the arguments `given` as `float, 256`, or likely ones."""
        parts = [part.strip() for part in _DEFAULT.sub("", self.parameters).split(",")]
        values = [value.strip() for value in given.split(",")] if given else list(map(_likely, parts))
        arguments = _DEFAULT.sub("", self.arguments)
        for part, value in zip(parts, values, strict=False):
            if (found := re.search(r"(\w+)$", part)) is not None:
                arguments = re.sub(rf"\b{found[1]}\b", value, arguments)
        shown = " ".join(arguments.split()) or "…"
        return f"template __global__ void {self.name}<{', '.join(values)}>({shown});"


def _likely(parameter: str) -> str:
    if _TYPE.match(parameter):
        return _TYPE_ARGUMENT
    return "true" if parameter.startswith("bool") else _NUMBER_ARGUMENT


def template_kernels(source: str) -> Iterator[TemplateKernel]:
    """Those of a source, in order.

    One statement after the other, each looked at once: a single pattern for all of it would take the square of a text
    that says `template` again and again.
    """
    for statement in _STATEMENT_ENDS.split(source):
        head = _TEMPLATE.search(statement)
        kernel = head and _KERNEL.search(statement, head.end())
        if head is None or kernel is None:
            continue
        text = _COMMENT.sub(" ", statement[kernel.end() :])
        # The bounds of a launch come before or behind `void`, with parentheses of their own.
        names = [found for found in _NAME.finditer(text) if found[1] not in ("void", "__launch_bounds__")]
        if names:
            before = statement[: kernel.start()].rpartition("template")[2].strip().removeprefix("<")
            inside = text[names[0].end() :].rstrip()
            written = inside[:-1] if inside.endswith(")") and not re.search("[()]", inside[:-1]) else ""
            yield TemplateKernel(names[0][1], before.strip(), written)
