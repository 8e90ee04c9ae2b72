"""A text against an outline of PyTorch's headers, and when headers are prepared: no compiler runs."""

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
