"""Modules of C++ that were compiled before, for the process in which a submission asks `load_inline` for them."""

import importlib.util
from collections.abc import Mapping
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from evaluator.backends.extension_key import content_key


class NoCompilerError(Exception):
    """The submission asks for a compiler: there is none beside it."""


def texts_of(given: Any) -> list[str]:
    """One text or several, as `load_inline` takes them."""
    return [given] if given and isinstance(given, str) else [str(one) for one in given or ()]


class PrebuiltModules:
    """Shared libraries by their content, each imported when it is first asked for."""

    def __init__(self, libraries: Mapping[str, tuple[str, bytes]]) -> None:
        """`libraries`: by key, the module's name and its file."""
        self._libraries = dict(libraries)
        self._imported: dict[str, ModuleType] = {}

    def module(self, key: str) -> ModuleType:
        """Raises NoCompilerError where it was not compiled, ImportError where it cannot be loaded."""
        if key not in self._libraries:
            raise NoCompilerError("C++ that was not there to be compiled before it ran")
        if key not in self._imported:
            name, content = self._libraries[key]
            folder = Path(f"extension-{key[:16]}")
            folder.mkdir(exist_ok=True)
            path = (folder / f"{name}.so").resolve()
            path.write_bytes(content)
            spec = importlib.util.spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
            assert spec is not None
            assert spec.loader is not None
            made = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(made)
            self._imported[key] = made
        return self._imported[key]

    def only(self) -> ModuleType:
        """The one module that there is. Raises as `module` does."""
        return self.module(next(iter(self._libraries), ""))

    def load_inline(
        self,
        name: str,
        cpp_sources: Any = "",
        cuda_sources: Any = None,
        functions: Any = None,
        extra_cflags: Any = None,
        extra_cuda_cflags: Any = None,
        **_: Any,
    ) -> ModuleType:
        """`torch.utils.cpp_extension.load_inline`."""
        named = None if functions is None else texts_of(functions)
        flags = [str(one) for one in extra_cuda_cflags or ()]
        return self.module(content_key(name, texts_of(cpp_sources), texts_of(cuda_sources), named, flags))

    def install(self) -> None:
        """Have `load_inline` find what is here."""
        from torch.utils import cpp_extension

        cpp_extension.load_inline = self.load_inline  # type: ignore[assignment]
