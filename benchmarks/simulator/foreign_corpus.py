"""How many kernels that nobody here wrote does the simulator translate?

The sources are those in source distributions of public Python packages, fetched from pip's index when this runs. Each
`.cu` file that compiles by itself (with the headers of its own package, the toolkit's, and torch's if torch is
installed) is compiled to PTX, and every entry kernel of it is translated on its own. Nothing is run.

    python benchmarks/simulator/foreign_corpus.py                       # all packages, some minutes
    python benchmarks/simulator/foreign_corpus.py --keep /tmp/foreign   # keeps sources and PTX, and starts from what
    is there python benchmarks/simulator/foreign_corpus.py pycuda exllamav2      # these only, nothing saved
"""

import argparse
import hashlib
import html
import importlib.util
import os
import re
import ssl
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import urllib.request
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin

from benchmarks._support.record import save
from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen import module
from evaluator.backends.sim.ptx import parser as parsing
from evaluator.stages.compile.toolchain import find_toolchain

PACKAGES = {
    "auto-gptq": "0.7.1",
    "deepspeed": "0.15.4",
    "exllamav2": "0.0.4",
    "llama-cpp-python": "0.3.2",
    "pycuda": "2025.1",
    "torch-scatter": "2.1.2",
    "warp-rnnt": "0.7.0",
}
"""Those whose source distributions hold kernels; others bring theirs as binaries only."""
ARCH = "sm_80"
FLAGS = (
    "-ptx",
    f"-arch={ARCH}",
    "-std=c++17",
    "-O3",
    "-lineinfo",
    "-w",
    "--expt-relaxed-constexpr",
    "--extended-lambda",
)
UNDEFINED = ("__CUDA_NO_HALF_OPERATORS__", "__CUDA_NO_HALF_CONVERSIONS__", "__CUDA_NO_BFLOAT16_CONVERSIONS__")
MAX_FILES = 30
"""Files of one package: of more, those whose names' digests are the smallest."""
STAND_INS = {
    "c10/cuda/impl/cuda_cmake_macros.h": "",
    "cublas_v2.h": """#pragma once
typedef struct cublasContext *cublasHandle_t;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS };
enum cublasMath_t { CUBLAS_DEFAULT_MATH, CUBLAS_TF32_TENSOR_OP_MATH };
const char *cublasGetStatusString(cublasStatus_t);
cublasStatus_t cublasCreate(cublasHandle_t *), cublasDestroy(cublasHandle_t);
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t);
""",
    "cublasLt.h": "#pragma once\ntypedef struct cublasLtContext *cublasLtHandle_t;\n",
    "cusparse.h": "#pragma once\ntypedef struct cusparseContext *cusparseHandle_t;\n",
    "cusolver_common.h": "#pragma once\nenum cusolverStatus_t { CUSOLVER_STATUS_SUCCESS };\n",
    "cusolverDn.h": "#pragma once\ntypedef struct cusolverDnContext *cusolverDnHandle_t;\n",
}
"""What host code around kernels wants of libraries that no package brings: opaque handles."""
SDIST = re.compile(r'href="([^"]+)"[^>]*>\s*([^<]+?\.(?:tar\.gz|zip))\s*<')


@dataclass
class Package:
    """What became of one package's files."""

    name: str
    files: int = 0
    compiled: int = 0
    kernels: int = 0
    translated: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    """What stopped a kernel, by kernels."""
    failures: list[str] = field(default_factory=list)
    """First error of each file that does not compile."""


def index() -> str:
    """The index that pip asks."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return asked.stdout.strip()
    from pip._internal.models.index import PyPI

    return os.environ.get("PIP_INDEX_URL") or PyPI.simple_url


def fetch(name: str, version: str, into: Path) -> Path:
    """The package's unpacked source distribution."""
    folder = into / f"{name}-{version}"
    if folder.is_dir():
        return folder
    page = f"{index().rstrip('/')}/{name}/"
    context = ssl.create_default_context()
    with urllib.request.urlopen(page, timeout=120, context=context) as answer:
        links = SDIST.findall(answer.read().decode())
    wanted = f"{name}-{version}.tar.gz".replace("-", "_").replace(f"_{version}", f"-{version}")
    found = [link for link, file in links if file.replace("-", "_").replace(f"_{version}", f"-{version}") == wanted]
    if not found:
        raise SystemExit(f"pip's index has no source distribution {wanted}: give another version in PACKAGES.")
    part = into / f".{folder.name}"
    link = urljoin(page, html.unescape(found[0]))
    with (
        urllib.request.urlopen(link, timeout=600, context=context) as answer,
        tarfile.open(fileobj=answer, mode="r|gz") as archive,
    ):
        archive.extractall(part, filter="data")
    part.rename(folder)
    return folder


def torch_headers() -> list[Path]:
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return []
    include = Path(found.origin).parent / "include"
    return [include, include / "torch/csrc/api/include"]


def quoted_kernels(folder: Path, made: Path) -> list[Path]:
    """What Python files hand to PyCUDA's `SourceModule` as one literal, as files."""
    files = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(errors="replace")
        for number, source in enumerate(re.findall(r'SourceModule\(\s*r?"""(.*?)"""\s*[,)]', text, re.DOTALL)):
            file = made / f"{path.stem}_{number}.cu"
            file.write_text(f'extern "C" {{\n{source}\n}}\n')
            files.append(file)
    return files


def include_folders(folder: Path, file: Path, made: Path) -> list[Path]:
    """Folders of the package that its `#include` lines may mean: those above the file, and every `include`."""
    above = [parent for parent in file.parents if folder in (parent, *parent.parents)]
    named = [
        path for path in folder.rglob("*") if path.is_dir() and path.name in ("include", "includes", "src", "csrc")
    ]
    return [*above, *named, made, *torch_headers(), Path(sysconfig.get_paths()["include"])]


def compiled(folder: Path, file: Path, made: Path, limit_s: float) -> str | None:
    """None when the PTX is there, else the first error."""
    target = made / (hashlib.sha256(str(file.relative_to(folder.parent)).encode()).hexdigest()[:16] + ".ptx")
    failed = target.with_suffix(".error")
    if target.exists():
        return None
    if failed.exists():
        return failed.read_text()
    includes = [f"-I{path}" for path in include_folders(folder, file, made)]
    command = [str(find_toolchain().nvcc), *FLAGS, *(f"-U{name}" for name in UNDEFINED), *includes, str(file)]
    try:
        done = subprocess.run(
            [*command, "-o", str(target)], capture_output=True, text=True, timeout=limit_s, check=False
        )
        said = done.stderr
    except subprocess.TimeoutExpired:
        said = f"error: takes longer than {limit_s:g} s"
    if target.exists():
        return None
    error = next((line for line in said.splitlines() if "error" in line), said[:200]).strip()
    failed.write_text(error)
    return error


FUNCTION = re.compile(r"^(?=(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b)", re.MULTILINE)

SECTION = re.compile(r"^\s*\.section\s[^{]*\{[^}]*\}", re.MULTILINE)
"""Line information, which has nothing to translate."""


def kernels_of(text: str) -> list[str]:
    """Each entry kernel of a PTX text as a text of its own, with the device functions and variables of the whole."""
    common, *parts = FUNCTION.split(text)
    entries = []
    for part in parts:
        body, semicolon = part.find("{"), part.find(";")
        end = part.rfind("\n}\n") + 3
        if body < 0 or 0 <= semicolon < body or end < 3:
            common += part
            continue
        common += part[end:]
        if re.match(r"(?:\.\w+\s+)*\.entry\b", part):
            entries.append(part[:end])
        else:
            common += part[:end]
    common = SECTION.sub("", common)
    return [common + entry for entry in entries]


def outcome(path: Path) -> tuple[int, int, Counter[str]]:
    """Entry kernels of a PTX file, those that translate, and what stopped the others."""
    translated, stopped = 0, Counter[str]()
    texts = kernels_of(path.read_text())
    for text in texts:
        try:
            module.translate(parsing.parse_ptx(text))
            translated += 1
        except UnsupportedError as missing:
            stopped[missing.feature] += 1
    return len(texts), translated, stopped


def look(name: str, into: Path, limit_s: float, workers: int) -> Package:
    """Fetch, compile and translate one package."""
    folder = fetch(name, PACKAGES[name], into)
    made = into / f"{folder.name}.ptx"
    for header, text in STAND_INS.items():
        (made / header).parent.mkdir(parents=True, exist_ok=True)
        (made / header).write_text(text)
    inline = quoted_kernels(folder, made)
    found = [*folder.rglob("*.cu"), *inline]
    files = sorted(found, key=lambda file: hashlib.sha256(file.name.encode()).hexdigest())[:MAX_FILES]
    package = Package(name, len(files))
    with ThreadPoolExecutor(workers) as pool:
        errors = list(pool.map(lambda file: compiled(folder, file, made, limit_s), files))
    for file, error in zip(files, errors, strict=True):
        if error:
            package.failures.append(f"{file.relative_to(into)}: {error}")
    with ProcessPoolExecutor(workers) as pool:
        outcomes = list(pool.map(outcome, sorted(made.glob("*.ptx"))))
    for kernels, translated, missing in outcomes:
        package.compiled += 1
        package.kernels += kernels
        package.translated += translated
        package.missing += missing
    return package


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", choices=[[], *PACKAGES], default=[])
    parser.add_argument("--keep", type=Path, help="folder for sources and PTX")
    parser.add_argument("--limit", type=float, default=120, help="seconds that one file may compile")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--errors", action="store_true", help="print what does not compile, and why")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        into = asked.keep or Path(temporary)
        into.mkdir(parents=True, exist_ok=True)
        packages = []
        for name in asked.packages or PACKAGES:
            package = look(name, into, asked.limit, asked.workers)
            packages.append(package)
            print(
                f"{name}: {package.compiled} of {package.files} files compile, {package.translated} of "
                f"{package.kernels} kernels translate {dict(package.missing.most_common(5)) or ''}",
                flush=True,
            )
            if asked.errors:
                print("\n".join(package.failures), flush=True)
    missing = sum((package.missing for package in packages), Counter[str]())
    kernels = sum(package.kernels for package in packages)
    if asked.packages:
        return
    shares = [package.translated / package.kernels for package in packages if package.kernels]
    met = save(
        "foreign_corpus",
        {
            "share_of_kernels_that_translate": sum(p.translated for p in packages) / max(kernels, 1),
            "mean_share_by_package": sum(shares) / max(len(shares), 1),
            "kernels": kernels,
            "packages_with_kernels": len(shares),
            "files_that_compile": sum(package.compiled for package in packages),
            "files": sum(package.files for package in packages),
        },
        {"share_of_kernels_that_translate": (">=", 0.9), "kernels": (">=", 200)},
        PACKAGES,
        details={
            "missing_by_kernels": dict(missing.most_common()),
            "by_package": {p.name: [p.files, p.compiled, p.kernels, p.translated] for p in packages},
        },
    )
    raise SystemExit(not met)


if __name__ == "__main__":
    main()
