"""PyTorch's headers as the host compiler keeps them once it has read them (precompiled headers), for many extensions.

A folder of the cache for each compiler, PyTorch and set of flags: some hundred MiB, and made in half a minute or
more, so only where several modules have been built for it already. Without it everything compiles as well, slower.
Nothing of a submission is in it, but flags are a submission's to choose: the cache keeps those that were used last.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from evaluator.disk_cache import Cache, key_of
from evaluator.errors import SandboxError
from evaluator.file_lock import lock_unless_held
from evaluator.sandbox.sandbox import Job, JobResult
from evaluator.stages.compile.compiler_exit import said
from evaluator.stages.compile.toolchain import Toolchain
from evaluator.stages.host.narrow_includes import (
    PYTHON_HEADERS,
    STREAM_HEADERS,
    TENSOR_HEADERS,
    function_headers,
    names_in_torch,
)
from evaluator.stages.host.torch_outline import NotOutlinedError, before_kernels, macros_of
from evaluator.stages.host.torch_package import TorchPackage

COMMON: Final = "assay_common.h"
"""The header that is prepared, as the compiler's texts include it first."""
_RULES: Final = "prepared headers 3"
_WORTH_BUILDS: Final = 3
"""After so many builds: by then they have cost what it takes to prepare, about 17 s of CPU time for the host
compiler's headers and 35 s for nvcc's, of which a build then saves a quarter and a half."""
_FAILED: Final = "failed"
_MAX_REASON: Final = 2000
"""Characters of what a compiler says that are kept: the first errors."""
_MACROS, _FILES = "macros", "files"
_STANDARD: Final = (
    *("algorithm", "array", "atomic", "cassert", "cctype", "cfloat", "chrono", "climits", "cmath", "cstddef"),
    *("cstdint", "cstdio", "cstdlib", "cstring", "ctime", "deque", "exception", "fstream", "functional"),
    *("initializer_list", "iomanip", "iostream", "iterator", "limits", "list", "map", "memory", "mutex"),
    *("numeric", "optional", "queue", "random", "set", "sstream", "stdexcept", "string", "string_view"),
    *("thread", "tuple", "type_traits", "unordered_map", "unordered_set", "utility", "vector"),
)
_FUNCTIONS: Final = (
    *("zeros", "zeros_like", "empty", "empty_like", "empty_strided", "ones", "ones_like", "full", "full_like"),
    *("arange", "abs", "add", "addmm", "amax", "argmax", "bmm", "cat", "clamp", "clamp_min", "clone", "conv2d"),
    *("cumsum", "div", "exp", "flatten", "gelu", "layer_norm", "linear", "linspace", "log", "log_softmax"),
    *("matmul", "max", "mean", "min", "mm", "mul", "norm", "permute", "pow", "rand", "randn", "relu"),
    *("reshape", "rsqrt", "scalar_tensor", "sigmoid", "silu", "softmax", "sort", "split", "sqrt", "squeeze"),
    *("stack", "sub", "sum", "tanh", "topk", "transpose", "unsqueeze", "var", "where"),
)
"""Of PyTorch's, those that extensions call; a text that calls others is compiled against the headers as files."""
_CUDA: Final = ("cuda.h", "cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "cooperative_groups.h", "mma.h")

_ALSO_INLINE: Final = """\
#include <string>
#include <vector>
namespace pybind11 { template <typename T> static inline std::string type_id(); }
namespace c10 {
namespace detail { struct ListImpl; }
template <typename T> static inline std::vector<T> createVectorFromList(const detail::ListImpl *impl);
template <typename T> static inline T createVectorLikeFromList(const detail::ListImpl *impl);
}
"""
"""Templates of PyTorch's that are `static` and not `inline`. Of such ones g++ makes code in every text, with all that
they call, where it does not optimise: a fifth of what it does for one kernel. That they are inline as well changes
nothing else."""

Run = Callable[[Job], JobResult]
"""Runs a compiler in the sandbox, with enough time, memory and room."""


@dataclass(frozen=True)
class PreparedHeaders:
    """One prepared header."""

    folder: Path
    macros: str
    """Of those for nvcc: the macros of PyTorch's."""
    files: frozenset[str]
    """Of those for nvcc: all files that are in it, resolved."""


@dataclass(frozen=True)
class HeaderPreparation:
    """Prepares headers for one set of flags."""

    torch: TorchPackage
    toolchain: Toolchain
    cache: Cache
    readable: tuple[Path, ...]
    run: Run

    def for_host(self, flags: tuple[str, ...], *, now: bool = False) -> PreparedHeaders | None:
        """What the host compiler reads with `flags`; None where it is not worth its preparation, or fails. `now`:
        it is worth it.
        """
        return self._kept("host", flags, now, partial(self._host_files, flags))

    def for_cuda(
        self, flags: tuple[str, ...], host_flags: tuple[str, ...], *, now: bool = False
    ) -> PreparedHeaders | None:
        """The same for what nvcc prints with `flags` for the host compiler, which it gives `host_flags`."""
        return self._kept("cuda", (*flags, "", *host_flags), now, partial(self._cuda_files, flags, host_flags))

    def _kept(
        self, kind: str, flags: tuple[str, ...], now: bool, make: Callable[[str], Mapping[str, bytes]]
    ) -> PreparedHeaders | None:
        """`make` is given what comes first in the header."""
        key = key_of(_RULES, kind, "\n".join(flags), self.torch.version, str(self.torch.root), self.toolchain.digest)
        folder = self.cache.folders / key
        try:
            return _read(folder) if folder.is_dir() or self._prepare(folder, now, make) else None
        except (OSError, SandboxError):
            # No room or no time, say: it is only a way to save time, and tried again after as many builds.
            with contextlib.suppress(OSError):
                folder.with_suffix(".builds").unlink(missing_ok=True)
            return None

    def _prepare(self, folder: Path, now: bool, make: Callable[[str], Mapping[str, bytes]]) -> bool:
        """Prepare what is not there, where that is worth it and nobody else does; whether it is there then."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not now and not _worth(folder.with_suffix(".builds")):
            return False
        with folder.with_suffix(".lock").open("ab") as lock:
            if not lock_unless_held(lock):
                return False
            if not folder.is_dir():
                _write(folder, self._made_or_failed(make))
                self.cache.trim_folders()
        return True

    def _made_or_failed(self, make: Callable[[str], Mapping[str, bytes]]) -> Mapping[str, bytes]:
        """What does not succeed is tried once, and not with every build."""
        why = ""
        # The second is for a PyTorch in which they are declared in another way.
        for first in (_ALSO_INLINE, ""):
            try:
                made = make(first)
            except _NotPreparedError as error:
                why = str(error)
            else:
                has_room = sum(map(len, made.values())) <= self.cache.room_for_folders_bytes
                return made if has_room else {_FAILED: b"They have no room in the cache."}
        return {_FAILED: why.encode()}

    def _host_files(self, flags: tuple[str, ...], first: str) -> Mapping[str, bytes]:
        return self._precompiled(f"#pragma once\n{first}{self._text(*PYTHON_HEADERS)}", flags)

    def _cuda_files(self, flags: tuple[str, ...], host_flags: tuple[str, ...], first: str) -> Mapping[str, bytes]:
        streams = STREAM_HEADERS if self.torch.cuda is not None else ()
        text = first + self._text(*streams, *_CUDA)
        files = {"headers.cu": f"{text}{names_in_torch()}\n".encode()}
        nvcc = (str(self.toolchain.nvcc), *(flag for flag in flags if flag != "-c"))

        def told(*more: str) -> str:
            arguments = (*nvcc, "-ccbin", str(self.toolchain.host_compiler), *more, "-o", "told.ii", "headers.cu")
            return self._made(arguments, files, "told.ii").decode(errors="replace")

        try:
            printed = before_kernels(told("-cuda"))
        except NotOutlinedError as why:
            raise _NotPreparedError(str(why)) from None
        folders = (self.torch.root / "include",)
        device, named = macros_of(told("-E", "-Xcompiler", "-dD"), folders)
        host, named_too = macros_of(told("-E", "-Xcompiler", "-dD,-U__CUDA_ARCH__"), folders)
        macros = f"#ifdef __CUDA_ARCH__\n{device}\n#else\n{host}\n#endif\n"
        covered = "\n".join(sorted(name for name in named | named_too if name.startswith("/")))
        return {
            **self._precompiled(printed, host_flags),
            _MACROS: macros.encode(),
            _FILES: covered.encode(),
        }

    def _text(self, *others: str) -> str:
        functions = function_headers(_FUNCTIONS, self.torch.root / "include")
        return "".join(f"#include <{name}>\n" for name in (*_STANDARD, *TENSOR_HEADERS, *functions, *others))

    def _precompiled(self, text: str, flags: tuple[str, ...]) -> Mapping[str, bytes]:
        gxx = (str(self.toolchain.host_compiler), *(flag for flag in flags if flag != "-c"))
        files = {COMMON: text.encode()}
        output = f"{COMMON}.gch"
        return {**files, output: self._made((*gxx, "-w", "-x", "c++-header", COMMON, "-o", output), files, output)}

    def _made(self, argv: tuple[str, ...], files: Mapping[str, bytes], output: str) -> bytes:
        job = Job(argv, files=files, collect=(output,), readable=self.readable, environment={"LC_ALL": "C"})
        run = self.run(job)
        if run.succeeded and output in run.files:
            return run.files[output]
        if run.met_limit:
            raise TimeoutError
        raise _NotPreparedError(said(run)[:_MAX_REASON])


class _NotPreparedError(Exception):
    """A compiler does not take PyTorch's headers as they are put together here."""


def _worth(builds: Path) -> bool:
    with builds.open("ab") as file:
        file.write(b".")
        return file.tell() > _WORTH_BUILDS


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    new = folder.with_name(f"new-{secrets.token_hex(8)}")
    try:
        new.mkdir()
        for name, content in files.items():
            (new / name).write_bytes(content)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _read(folder: Path) -> PreparedHeaders | None:
    with contextlib.suppress(OSError):
        os.utime(folder)
    if (folder / _FAILED).exists():
        return None  # the file says why
    read = [path.read_text(encoding="utf-8") if path.exists() else "" for path in (folder / _MACROS, folder / _FILES)]
    return PreparedHeaders(folder, read[0], frozenset(read[1].split("\n")))
