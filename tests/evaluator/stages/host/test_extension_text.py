"""What an extension is compiled as, what tells it from others, and what its functions take: nothing is compiled."""

import subprocess
import sys

import pytest

from common.contract import Status
from evaluator.backends.extension_key import content_key
from evaluator.backends.gpu.host.inside.extensions import NoCompilerError, PrebuiltModules, texts_of
from evaluator.problems.catalogue import find_problem
from evaluator.stages.host.extension_build import ExtensionText
from evaluator.stages.host.narrow_includes import NAME, narrow_header, with_narrow_includes
from evaluator.stages.host.torch_package import find_torch
from evaluator.stages.host.written_functions import call_of_extension
from evaluator.stages.lift.binding import LiftRefusedError

_PLAIN = "at::Tensor a, at::Tensor b, double c"
_NAMED = (("t", "y"), ("t", "x"), ("f", "alpha"))


def module(parameters, bound="&forward", body="forward"):
    return (
        f"torch::Tensor {body}({parameters}) {{ return x; }}\n"
        f'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("forward", {bound}); }}\n'
    )


@pytest.mark.parametrize(
    ("problem", "source", "arguments"),
    [
        ("relu", module("torch::Tensor x"), (("t", "x"),)),
        ("relu", module("const at::Tensor &x, int64_t n"), (("t", "x"), ("i", "n"))),
        ("relu", module("torch::Tensor whatever"), (("t", "x"),)),
        ("relu", module("torch::Tensor x, torch::Tensor y"), (("t", "x"), ("t", "y"))),
        ("relu", module("", "[](torch::Tensor x) { return x.relu(); }"), (("t", "x"),)),
        ("relu", module("torch::Tensor x", "torch::wrap_pybind_function(own)", "own"), (("t", "x"),)),
        ("saxpy", module("at::Tensor x, at::Tensor y, double alpha"), (("t", "x"), ("t", "y"), ("f", "alpha"))),
        ("relu", module("torch::Tensor x, c10::optional<torch::Tensor> other"), (("t", "x"),)),
        ("saxpy", module(_PLAIN, '&own, py::arg("y").noconvert(), py::arg("x"), py::arg("alpha")', "own"), _NAMED),
        ("saxpy", module(_PLAIN, '&own, "y"_a, "x"_a, "alpha"_a = 2.0', "own"), _NAMED),
    ],
)
def test_a_function_is_bound_from_its_text_as_a_recording_binds_it(problem, source, arguments):
    call, _ = call_of_extension(source, find_problem(problem))
    assert call.function == "forward"
    assert call.arguments[: len(arguments)] == arguments
    assert all(what is None for _, what in call.arguments[len(arguments) :])


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (module("torch::Tensor x, torch::Tensor y, torch::Tensor z"), Status.INVALID_SUBMISSION),
        (module("torch::Tensor x", "&elsewhere"), Status.UNSUPPORTED),
        ("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}", Status.INVALID_SUBMISSION),
    ],
)
def test_what_does_not_fit_or_cannot_be_read_is_said(source, status):
    with pytest.raises(LiftRefusedError) as refused:
        call_of_extension(source, find_problem("relu"))
    assert refused.value.ruling.status is status


def test_a_module_is_found_by_what_load_inline_is_given():
    text = ExtensionText("ext", ("a",), ("b",), ("f",), ("-O3",))
    given = ("ext", texts_of("a"), texts_of(["b"]), texts_of("f"), ["-O3"])
    assert content_key(*given) == text.key
    assert ExtensionText("ext", ("a",), (), ("f",), ("-O3",)).key != text.key
    assert texts_of("") == texts_of(None) == []
    with pytest.raises(NoCompilerError):
        PrebuiltModules({text.key: ("ext", b"")}).load_inline("ext", cpp_sources="another text")


def test_a_text_keeps_its_lines_and_gets_the_headers_that_it_names():
    text = "#include <torch/extension.h>\n#include <vector>\nat::Tensor f(at::Tensor x) { return at::relu(x); }\n"
    narrow = with_narrow_includes(text)
    assert narrow.split("\n")[0] == f'#include "{NAME}"'
    assert narrow.split("\n")[1:] == text.split("\n")[1:]
    header = narrow_header(text, find_torch().root / "include")
    assert "<ATen/ops/relu.h>" in header
    assert "pybind" not in header
    assert "CUDAStream" not in header


def test_torch_is_found_without_importing_it():
    code = (
        "import sys; from evaluator.stages.host.torch_package import find_torch; f = find_torch(); "
        "assert 'torch' not in sys.modules; print(f.version, f.standard)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    version, standard = said.stdout.split()
    assert version[0].isdigit()
    assert standard.startswith("c++")
