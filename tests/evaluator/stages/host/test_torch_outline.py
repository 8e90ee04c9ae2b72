"""A text against an outline of PyTorch's headers, and when headers are prepared: no compiler runs."""

import os
import time

import pytest

from evaluator.disk_cache import Cache
from evaluator.sandbox.sandbox import JobResult
from evaluator.stages.compile.toolchain import find_toolchain
from evaluator.stages.host.narrow_includes import NAME, begins_with_headers
from evaluator.stages.host.prepared_headers import HeaderPreparation
from evaluator.stages.host.torch_outline import NotOutlinedError, macros_of, outlined, own_part
from evaluator.stages.host.torch_package import find_torch

TEXT = """#include <torch/extension.h>
#include <vector>
__global__ void twice(float *x) { x[0] *= 2; }
at::Tensor f(at::Tensor x) { twice<<<1, 1>>>(x.data_ptr<float>()); return at::relu(x).square(); }
"""


def test_an_outline_declares_what_the_text_calls_as_pytorchs_headers_do():
    files = {
        name: held.decode() for name, held in outlined(TEXT, "cuda.cu", find_torch().headers[0], frozenset()).items()
    }
    assert files["cuda.cu"].split("\n")[0] == f'#include "{NAME}"'
    assert files["cuda.cu"].split("\n")[1:] == TEXT.split("\n")[1:]
    assert files["assay_methods.h"] == "at::Tensor square() const;"
    assert "at::Tensor relu(const at::Tensor & self);" in files["assay_functions.h"]


@pytest.mark.parametrize(
    "beyond",
    [
        "#include <torch/csrc/autograd/variable.h>\n",
        'void g(at::Tensor x) { AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "g", [&] {}); }\n',
        "constexpr int size = sizeof(at::Tensor);\n",
        "void g(c10::complex<float> x) {}\n",
        '#line 7 "other.h"\n',
        "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n",
    ],
)
def test_a_text_that_needs_more_gets_the_headers(beyond):
    with pytest.raises(NotOutlinedError):
        outlined(TEXT + beyond, "cuda.cu", find_torch().headers[0], frozenset())


@pytest.mark.parametrize(
    ("before", "begins"),
    [("", True), ("// a word\n#include <cmath>\n\n", True), ("#define NDEBUG\n", False), ("int a;\n", False)],
)
def test_prepared_headers_are_for_texts_with_nothing_before_them(before, begins):
    assert begins_with_headers(before + TEXT) is begins


PRINTED = """# 0 "a.cudafe1.cpp"
# 1 "cuda.cu"
static char __nv_inited;
# 1 "/usr/include/a.h" 1 3
int a;
# 1 "./assay_torch.h"
int b;
# 3 "cuda.cu"
int own;
# 1 "a.cudafe1.stub.c"
# 1 "/tmp/a.cudafe1.stub.c" 1 3
int registered;
# 9 "/usr/include/a.h" 1 3
int c;
"""


def test_of_what_nvcc_prints_the_text_and_its_registration_stay():
    own = own_part(PRINTED, "cuda.cu", frozenset({"/usr/include/a.h"}))
    assert [line for line in own.split("\n") if "int" in line] == ["int own;", "int registered;"]
    assert " 1 3" not in own
    with pytest.raises(NotOutlinedError, match=r"/usr/include/a\.h"):
        own_part(PRINTED, "cuda.cu", frozenset())


def test_macros_are_those_of_pytorchs_files(tmp_path):
    told = f'# 1 "{tmp_path}/c10/a.h" 1\n#define OURS(x) x\nint a;\n# 2 "/usr/include/b.h" 2\n#define OTHER\n'
    macros, files = macros_of(told, (tmp_path,))
    assert macros == "#define OURS(x) x"
    assert f"{tmp_path}/c10/a.h" in files


def test_headers_are_prepared_once_where_several_modules_are_built_and_a_failure_is_remembered(tmp_path):
    jobs = []

    def run(job):
        jobs.append(job)
        return JobResult(0 if good else 1, None, b"", b"error", {"assay_common.h.gch": b"held"} if good else {}, 0.1)

    preparation = HeaderPreparation(find_torch(), find_toolchain(), Cache(tmp_path, 1 << 20), (), run)
    good = True
    assert [preparation.for_host(("-O1",)) is not None for _ in range(6)] == [False] * 3 + [True] * 3
    assert len(jobs) == 1
    prepared = preparation.for_host(("-O1",))
    assert (prepared.folder / "assay_common.h.gch").read_bytes() == b"held"
    good = False
    assert preparation.for_host(("-O2",), now=True) is None
    assert preparation.for_host(("-O2",), now=True) is None
    assert len(jobs) == 3  # it tries once more without what it declares itself


def test_prepared_headers_take_half_of_the_cache_at_most_and_those_used_last_are_kept(tmp_path):
    bytes_of = {}

    def run(job):
        return JobResult(0, None, b"", b"", {"assay_common.h.gch": b"h" * bytes_of.get(job.argv[1], 4000)}, 0.1)

    cache = Cache(tmp_path, 1 << 20)
    preparation = HeaderPreparation(find_torch(), find_toolchain(), cache, (), run)
    first, second = (preparation.for_host((flag,), now=True).folder for flag in ("-O1", "-O2"))
    size_bytes = sum(one.stat().st_size for one in first.iterdir())
    cache.capacity_bytes = 5 * size_bytes
    os.utime(second, (time.time() - 60,) * 2)
    third = preparation.for_host(("-O3",), now=True).folder
    assert {one for one in cache.folders.iterdir() if one.is_dir()} == {first, third}
    bytes_of["-Os"] = 3 * size_bytes
    assert preparation.for_host(("-Os",), now=True) is None
    for key in ("ab", "cd"):
        cache.get_or_make(4 * key, lambda: {"entry": b"e" * (2 * size_bytes)})
    held = sum(one.stat().st_size for one in tmp_path.rglob("*") if one.is_file() and one.suffix != ".builds")
    assert 4 * size_bytes < held <= cache.capacity_bytes
