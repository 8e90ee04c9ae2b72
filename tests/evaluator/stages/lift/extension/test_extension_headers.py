"""Which header stands for which of PyTorch's, and what of them a source asks for."""

import re
from pathlib import Path

import pytest

from common.contract import Diagnostic, Severity
from evaluator.stages.lift.extension.headers import HeaderNotCoveredError, beside_of, unknown_name

PAGE = Path(__file__).parents[5] / "docs" / "lifting.md"
PLAIN = '#include <torch/extension.h>\n  #  include "ATen/cuda/CUDAContext.h"\n#include <cuda_runtime.h>\nint x;\n'


def test_includes_of_pytorch_become_ours_in_their_lines():
    text = beside_of(PLAIN).text
    assert text.splitlines() == [
        '#include "assay_extension.h"',
        '  #  include "assay_cuda.h"',
        "#include <cuda_runtime.h>",
        "int x;",
    ]


def test_a_header_for_which_nothing_stands_is_named_with_its_line():
    with pytest.raises(HeaderNotCoveredError) as caught:
        beside_of("int x;\n#include <torch/csrc/jit/frontend/parser.h>\n")
    assert (caught.value.path, caught.value.line) == ("torch/csrc/jit/frontend/parser.h", 2)


def test_the_page_names_headers_for_which_something_stands():
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith("| headers |"))
    for name in re.findall(r"`([\w/]+\.h)`", row):
        assert "assay_" in beside_of(f"#include <{name}>\n").text


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("int x;", ()),
        ("std::map<int, int> m; std::cout << 1;", ("<map>", "<iostream>")),
        ("using namespace std; sort(a, b);", ("<algorithm>",)),
        ("// std::map\n", ()),
        ("x.data_ptr<at::Half>()", ("HALF_OF_ASSAY",)),
        ("x.packed_accessor32<float, 2>()", ("ACCESSORS_OF_ASSAY",)),
        ("AT_DISPATCH_FLOATING_TYPES(t, n, f)", ("DISPATCH_OF_ASSAY",)),
    ],
    ids=["nothing", "of C++", "using", "comment", "half", "accessors", "dispatch"],
)
def test_only_what_a_source_names_is_brought_along(source, wanted):
    held = beside_of(source).files["assay_wants.h"].decode()
    found = re.findall(r"<\w+>|\w+_OF_ASSAY", held)
    always = {"<cassert>", "<climits>", "<cmath>", "<cstdio>", "<cstdlib>"}
    assert set(found) - always == set(wanted)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('class "at::Tensor" has no member "sparse_mask"', "at::Tensor::sparse_mask"),
        ('namespace "at::native" has no member "where"', "at::native::where"),
        ('identifier "AT_DISPATCH_V2" is undefined', "AT_DISPATCH_V2"),
        ('namespace "torch::autograd" has no member class "Variables"', "torch::autograd::Variables"),
        ('identifier "my_function" is undefined', None),
        ('class "Mine" has no member "x"', None),
    ],
)
def test_a_name_of_pytorch_that_is_missing_is_told_from_one_of_the_submission(text, name):
    told = Diagnostic(file="kernel.cu", line=1, column=None, severity=Severity.ERROR, code=None, text=text)
    assert unknown_name([told]) == name


@pytest.mark.parametrize(
    ("source", "listed"),
    [
        ("auto y = torch::relu(x).abs_();", {"relu", "abs_"}),
        ("#define CALL(name) torch::name##_like(x)\n", None),
    ],
    ids=["named", "names that are put together"],
)
def test_of_pytorchs_operators_those_are_read_that_a_source_names(source, listed):
    held, all_of_them = (beside_of(text).files["assay_operators.h"].decode() for text in (source, "#define A a##b"))
    every = set(re.findall(r"(?<!\w)_\((\w+)\)", all_of_them))
    assert set(re.findall(r"(?<!\w)_\((\w+)\)", held)) == (every if listed is None else listed)
    assert len(every) > 300
