"""Several modules as one text: lines stay where they are in the solution, and names of two modules do not meet."""

import pytest

from evaluator.stages.lift.kernelbench.joined_text import CompiledText, joined

FIRST = "// a } in a comment\n#include <a.h>\n#define B 1\n__global__ void k() {}\nint f() { return 1; }\n"
SECOND = "#ifdef X\n#include <b.h>\n#endif\n__global__ void k() { g('}'); }\nint f() { return 2; }"
OTHER = SECOND.replace("void k", "void other").replace("int f", "int other_f")


def module(text, line=1, functions=("f",)):
    return CompiledText(name="m", sources=(text,), cpp=0, lines=(line,), functions=functions, flags=())


def test_names_of_one_module_alone_are_as_they_were():
    text = joined("x\n" * 9, [module(FIRST, 2), module(OTHER, 0, ("other_f",))])
    assert "namespace" not in text
    assert text.split("\n")[1:6] == FIRST.split("\n")[:5]
    assert 'm.def("other_f", torch::wrap_pybind_function(other_f), "other_f");' in text


def test_names_of_two_modules_are_in_two_namespaces_and_no_line_moves():
    text = joined("x\n" * 9, [module(FIRST, 2), module(SECOND, 0)])
    lines = text.split("\n")
    assert lines[1:5] == [
        "// a } in a comment",
        "#include <a.h>",
        "#define B 1",
        "namespace assay_module_0 { __global__ void k() {}",
    ]
    assert "namespace assay_module_1 { __global__ void k()" in text
    assert "#endif\nnamespace" in text
    assert 'm.def("f", torch::wrap_pybind_function(assay_module_0::f), "f");' in text
    assert 'm.def("f.1", torch::wrap_pybind_function(assay_module_1::f), "f");' in text


@pytest.mark.parametrize(
    "second",
    [
        "void g() {}\n#include <b.h>\n__global__ void k() {}\n",
        "__global__ void k() {}\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n",
        "#define ONLY 1\n",
        f"__global__ void k() {{}}\n/*{'x' * (1 << 18)}*/\n",
    ],
    ids=["code before an include", "a module of its own", "no code", "very long"],
)
def test_what_no_namespace_can_hold_is_left_as_it_is(second):
    assert "namespace" not in joined("x\n" * 9, [module(FIRST, 2), module(second, 0)])
