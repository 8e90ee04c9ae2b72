"""Modules of C++ that are compiled before a submission runs, and what is called of them or of a Python text."""

from dataclasses import dataclass
from typing import ClassVar

from common.wire import BYTES_AS_BASE64


@dataclass(frozen=True)
class ExtensionCall:
    """What of an extension, or of a Python text, is called, with what."""

    function: str
    arguments: tuple[tuple[str, str | float | tuple[str | float, ...] | None], ...]
    """For each parameter its kind (`t` tensor, `i` integer, `f` floating point, `b` bool, `o` a Python object), and
    the name of a tensor, a size or a scalar, or a number; several for a list; None for None."""
    keywords: tuple[tuple[str, str, str | float | tuple[str | float, ...]], ...] = ()
    """What is passed by name: that name, kind and value."""


@dataclass(frozen=True)
class BuiltLibrary:
    """A module of C++ that `load_inline` is to find."""

    key: str
    """`extension_key.content_key`."""
    name: str
    content: bytes
    __pydantic_config__: ClassVar = BYTES_AS_BASE64
