"""A text of a mebibyte, chosen against one pattern each, is read in a time that grows with its length alone."""

import time

import pytest

from evaluator.problems.catalogue import find_problem
from evaluator.stages.compile import diagnostics
from evaluator.stages.host.coverage import kernels_of_text
from evaluator.stages.host.torch_outline import _EMPTY
from evaluator.stages.host.written_functions import call_of_extension
from evaluator.stages.launch.inference import launch_to_try
from evaluator.stages.screen.template_kernels import template_kernels

LENGTH = 1 << 20


def tile(source):
    return launch_to_try(find_problem("transpose"), "mov.u32 %r1, %ctaid.y;", source)


def template(text):
    return list(template_kernels(f"template <int N> __global__ void k(int* x = {text}"))


def bound(text):
    with pytest.raises(Exception, match="no function"):
        call_of_extension(text, find_problem("relu"))


@pytest.mark.parametrize(
    ("read", "begin", "piece"),
    [
        (tile, "// TILE", " "),
        (tile, "// ", "TILE"),
        (template, '"', "/* "),
        (kernels_of_text, "", "__global__ "),
        (kernels_of_text, "", "@triton.jit\n"),
        (bound, "", '.def("a", '),
        (_EMPTY.fullmatch, "x", " "),
        (_EMPTY.fullmatch, "", " "),
        (diagnostics._RENUMBERS.search, "", "\n"),
    ],
    ids=[
        "blanks behind TILE",
        "many TILE",
        "comments without an end",
        "many kernels",
        "many Triton kernels",
        "many definitions",
        "blanks",
        "blanks alone",
        "empty lines",
    ],
)
def test_a_mebibyte_is_read_in_bounded_time(read, begin, piece):
    text = begin + piece * (LENGTH // len(piece)) + "x"
    began_s = time.process_time()
    read(text)
    assert time.process_time() - began_s < 4


def test_a_tile_is_the_number_behind_a_word_that_says_so():
    sources = {"#define TILE 8": "8", "const int BLOCK_SIZE = 32;": "32", "int tile_dim=16": "16", "int x = 8;": "16"}
    for source, expected in sources.items():
        _, _, block = tile(source)
        assert block == (expected, expected), source
