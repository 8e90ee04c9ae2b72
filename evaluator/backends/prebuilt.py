"""Modules of C++ that are compiled before a submission runs: what tells them apart, and what is called of them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from common.wire import BYTES_AS_BASE64


def content_key(
    name: str,
    cpp_sources: Sequence[str],
    cuda_sources: Sequence[str],
    functions: Sequence[str] | None,
    cuda_flags: Sequence[str],
) -> str:
    """What tells one module from another: SHA-256 over all that `load_inline` is given and that we compile with."""
    named = None if functions is None else list(functions)
    asked = [name, list(cpp_sources), list(cuda_sources), named, list(cuda_flags)]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


@dataclass(frozen=True)
class ExtensionCall:
    """What of an extension is called, with what."""

    function: str
    arguments: tuple[tuple[str, str | float | tuple[str | float, ...] | None], ...]
    """For each parameter its kind (`t` tensor, `i` integer, `f` floating point, `b` bool, `o` a Python object), and
    the name of a tensor, a size or a scalar, or a number; several for a list; None for None."""


@dataclass(frozen=True)
class BuiltLibrary:
    """A module of C++ that `load_inline` is to find."""

    key: str
    """`content_key`."""
    name: str
    content: bytes
    __pydantic_config__: ClassVar = BYTES_AS_BASE64
