import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from common.contract import MAX_SOURCE_BYTES, Phase, Status
from common.source_lines import lines_of
from evaluator.stages.screen.cleaning import clean

KERNEL = """\
#include <cuda_fp16.h>

// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)
extern "C" __global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];  // it's done
}
"""
SECOND = "__global__ void scale(float* x) { x[0] *= 2; }\n"
KERNELS = sorted((Path(__file__).parents[3] / "kernels").glob("*.cu"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_our_own_kernels_come_back_as_they_are(path):
    raw = path.read_bytes()
    cleaned = clean(raw)
    assert cleaned.source.encode() == raw.replace(b"\r\n", b"\n")
    assert bool(cleaned.changes) == (b"\r" in raw)


@pytest.mark.parametrize(
    "code",
    [
        "/*\n```\nuse it so\n```\n*/\n" + KERNEL,
        'const char* text = R"(\n```cuda\nx\n```\n)";\n' + KERNEL,
        "// \u201cquotes\u201d and a\u00a0space \U0001f468\u200d\U0001f4bb\n" + KERNEL,
        '__global__ void k() { printf("\u2018\u2026\u2019\u00a0 <|im_end|>"); }\n',
        "__global__ void k() { float x = 1'000.0f; }\f\n\v",
        "// </think>\n" + KERNEL,
        "half2 twice(half2 x)\n{\n    return x + x;\n}\n" + KERNEL,
        "  \n\n" + KERNEL + "\n\n// the end",
        "__global__ void k(float* x)\n{\n    x[0] = 1\n",
        "MACRO(a, b)\n" + KERNEL,
    ],
)
def test_clean_code_is_left_alone(code):
    assert clean(code) == clean(code.encode())
    assert clean(code).source == code
    assert clean(code).changes == ()


@pytest.mark.parametrize(
    "raw",
    [
        f"```cuda\n{KERNEL}```",
        f"```cpp\n{KERNEL}```\n",
        f"```c++ title=x\n{KERNEL}```\nThat is all.",
        f"Here's the kernel (optimised):\n\n```\n{KERNEL}```\n\nIt's fast.",
        f"~~~cuda\n{KERNEL}~~~\n",
        f"````cuda\n{KERNEL}````\n",
        f"Sure!\n```cuda\n{KERNEL}",
        f"```cuda\n{KERNEL}```\nUse it so:\n```cpp\nint main() {{ add<<<1, 256>>>(a, b, c, n); }}\n```\n",
        f"```bash\nnvcc add.cu\n```\n```cuda\n{KERNEL}```",
        f'```python\nsource = "__global__ void no(int x)"\n```\n```cuda\n{KERNEL}```',
        f"First try:\n```cuda\n__global__ void add(int* wrong) {{}}\n```\nBetter:\n```cuda\n{KERNEL}```",
        f"<think>\n```cuda\nwrong\n```\n</think>\n```cuda\n{KERNEL}```<|im_end|>",
        f"I should add.\n</think>\n\n{KERNEL}",
        f"<|im_start|>assistant\n{KERNEL}<|im_end|>",
        f"<|start_header_id|>assistant<|end_header_id|>\n\n{KERNEL}<|eot_id|>",
        f"{KERNEL}<｜end▁of▁sentence｜>",
        f"{KERNEL}</s>",
        f"Here is the kernel:\n\n{KERNEL}\nThis kernel adds two vectors.\n",
        f"## Solution\n{KERNEL}",
        "\ufeff" + KERNEL,
        KERNEL.replace("\n", "\r\n"),
        KERNEL.replace("\n", "\r"),
        KERNEL.replace("int i", "int\u00a0i"),
        KERNEL.replace("int i", "int\u200b i\x07"),
        KERNEL.replace("it's", "it\u202e's"),
        KERNEL.replace('"C"', "\u201cC\u201d"),
        KERNEL.replace("[i];", "[i]；"),
    ],
)
def test_what_a_model_wraps_around_its_code_is_taken_off(raw):
    cleaned = clean(raw)
    assert cleaned.source.strip() == KERNEL.strip()
    assert cleaned.changes
    assert cleaned.ruling is None


def test_blocks_with_different_kernels_are_joined_in_order():
    cleaned = clean(f"```cuda\n{KERNEL}```\nand\n```cuda\n{SECOND}```\n")
    assert cleaned.source == "\n" + KERNEL + "\n\n\n" + SECOND
    assert "block 1 (lines 2 to 9) and block 2 (lines 13 to 13)" in cleaned.changes[0]


def test_a_block_of_device_functions_comes_along():
    helper = "__device__ float twice(float x) { return 2 * x; }\n"
    assert clean(f"```cuda\n{helper}```\n```cuda\n{KERNEL}```").source == "\n" + helper + "\n\n" + KERNEL


def test_a_fence_that_is_never_closed_is_said():
    assert any("cut off" in change for change in clean(f"```cuda\n{KERNEL}").changes)


def test_changes_name_the_line():
    assert "in line 3 " in clean(KERNEL.replace("assay", "as\u200bsay")).changes[0]
    assert "U+202E" in clean("int a; // \u202e\n").changes[0]


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (b"", ["empty"]),
        (b" \n\t\n", ["empty"]),
        (b"```cuda\n```", ["Nothing is left"]),
        (b"int a;\nint b\xff;", ["offset 12", "line 2", "0xff"]),
        (b"int a;\n\0", ["offset 7", "line 2", "NUL"]),
        (b"\x7fELF\x02\x01\x01\0\0", ["offset 7", "a compiled binary (ELF)"]),
        ("int a;".encode("utf-16"), ["UTF-16"]),
        (b"PK\x03\x04\0", ["ZIP"]),
        ("int \ud800;", ["offset 4"]),
        (b"a" * (MAX_SOURCE_BYTES + 1), [str(MAX_SOURCE_BYTES + 1), "1 MiB"]),
        ("é" * (MAX_SOURCE_BYTES // 2 + 1), ["1 MiB"]),
        ("<think>\nLet me see, ```cuda\n" + KERNEL, ["reasoning"]),
    ],
)
def test_what_is_no_text_is_an_invalid_submission(raw, parts):
    cleaned = clean(raw)
    assert cleaned.source == ""
    assert (cleaned.ruling.status, cleaned.ruling.phase) == (Status.INVALID_SUBMISSION, Phase.SCREEN)
    assert all(part in cleaned.ruling.message for part in parts)
    assert cleaned.ruling.hint


def test_exactly_one_mebibyte_is_allowed():
    assert clean(b"a" * MAX_SOURCE_BYTES).ruling is None


MARKED = re.compile(r"\bmark_\d+")
PROSE = st.sampled_from(
    [
        "Here's the kernel:\n",
        "\n",
        "It is *fast*.\n\n",
        "# Idea\n1. tile\n2. sum\n",
        "Use `add` so.\x0c\n",
        "<think>\nfirst\n\n",
    ]
)
OPENING = st.sampled_from(
    ["```cuda\n", "~~~cpp\n", "  ```\n", "````cu title=x\n", "", "</think>\n", "</think>", "<|im_start|>assistant\n"]
)
BETWEEN = st.sampled_from(
    [
        "\nIt adds.\n\n",
        "```python\nprint(1)\n```\n",
        "\n// mark_9 \u2028 a separator in a comment\n",
        "int mark_8; \u2028 int mark_7;\n",
        "/*\n```\nmark_6\n```\n*/\n",
        'const char* mark_5 = R"(\n~~~\n)";\n',
        "<|im_end|>\n",
        "\ufeff\n",
        "\f\v\x85\n",
    ]
)


@pytest.mark.parametrize("piece", ["```", "~", "``` ", "```\n", "~~~a", " ", "a", "\n", "<think>", "</think>", "<s>"])
@pytest.mark.parametrize("around", ["{}", "```{}`", "~~~ {}`"])
def test_a_mebibyte_of_anything_is_cleaned_in_bounded_time(piece, around):
    text = around.format(piece * ((MAX_SOURCE_BYTES - 8) // len(piece)))
    began_s = time.process_time()
    clean(text.encode())
    assert time.process_time() - began_s < 8


@st.composite
def answers(draw):
    """An answer in which every line of code holds a mark of its own."""
    blocks, mark = [], 10
    for _ in range(draw(st.integers(1, 3))):
        opening = draw(OPENING)
        code = "".join(
            f"__global__ void mark_{mark + n}(int* x) {{ x[0] = {n}; }}\n" for n in range(draw(st.integers(1, 3)))
        )
        mark += 3
        closing = "".join(re.findall("[`~]+", opening))
        blocks += [
            draw(PROSE),
            draw(BETWEEN),
            opening,
            code,
            draw(BETWEEN),
            f"{closing}\n" if closing else "",
            draw(PROSE),
        ]
    text = draw(st.sampled_from(["", "\ufeff"])) + "".join(blocks)
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))


@settings(max_examples=300)
@given(answers())
def test_every_line_keeps_its_number(sent):
    lines = lines_of(sent)
    for number, line in enumerate(clean(sent).source.split("\n")):
        for mark in MARKED.findall(line):
            assert mark in lines[number], f"{mark} is in line {number + 1} of the cleaned text"


@pytest.mark.parametrize(
    ("sent", "column"),
    [
        ('Try:\n```cuda\n  #include "mine.h"\n```', 2),
        ('<think>hm</think>#include "mine.h"\n__global__ void k() {}\n', 17),
        ('<|im_start|>#include "mine.h"\n__global__ void k() {}\n', 12),
        ('\ufeff#include "mine.h"\n', 0),  # shown with no width
        ("</think>// assay: launch k grid=(1)\n__global__ void k() {}\n", 0),  # a directive stands in the first
    ],
)
def test_every_line_keeps_its_columns(sent, column):
    source = clean(sent).source
    line = next(line for line in source.split("\n") if line.strip())
    assert len(line) - len(line.lstrip()) == column


def test_what_follows_the_code_is_gone_so_that_the_end_of_the_source_is_the_end_of_the_code():
    assert clean("```cuda\n__global__ void k() {\n```\n" + "It is fast.\n" * 40).source == "\n__global__ void k() {\n"


@pytest.mark.parametrize("separator", ["\u2028", "\u2029"])
def test_separators_are_line_ends_only_where_there_are_no_others(separator):
    """And for what shows the source as well, so that both speak of the same lines."""
    alone = KERNEL.rstrip("\n").replace("\n", separator)
    assert clean(alone).source == KERNEL.rstrip("\n")
    assert lines_of(alone) == KERNEL.rstrip("\n").split("\n")
    among = f"int a;{separator}int b;\n{KERNEL}"
    assert clean(among).source == f"int a; int b;\n{KERNEL}"
    assert lines_of(among)[1:] == KERNEL.rstrip("\n").split("\n")


FRAGMENTS = st.sampled_from(
    [
        "```",
        "```cuda\n",
        "~~~\n",
        "\n",
        "<think>",
        "</think>",
        "<|im_end|>",
        "“",
        '"',
        "'",
        "/*",
        "*/",
        "//",
        "\\\n",
        "\xa0",
        "\u202e",
        "\ufeff",
        "\r",
        "Here is the code:\n",
        "It's done.\n",
        "int a;\n",
        'R"(',
        ')"',
        KERNEL,
        "</s>",
    ]
)


@given(st.one_of(st.text(), st.lists(FRAGMENTS, max_size=14).map("".join)))
@example('\u201c " \u201d "')
def test_cleaning_twice_changes_nothing_more(text):
    once = clean(text)
    assert clean(once.source).source == once.source
    assert (once.source == "") == (once.ruling is not None)


@given(st.binary())
def test_no_bytes_raise(data):
    clean(data)


@pytest.mark.parametrize(("before", "after"), [("", ""), ("", "\n"), ("\n", "\n\n")])
def test_lines_that_only_unicode_separates_stay_lines_beside_a_newline_at_an_end(before, after):
    lines = ["#include <cuda_fp16.h>", "__global__ void k(float* p) {", "  p[0] = 1;  // one", "}"]
    assert clean(before + "\u2028".join(lines) + after).source == before + "\n".join(lines) + after
