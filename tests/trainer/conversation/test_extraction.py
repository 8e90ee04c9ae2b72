"""Answers taken apart: strictly, and in plain words where the form is another."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.conversation.extraction import canonical_source, extract, strategies, wrapped

KERNEL = "__global__ void k(float* y, int n)\n{\n    y[0] = n;\n}\n"
GOOD = f"```cuda\n{KERNEL}```"
LINE = "// assay: launch k grid=(1) block=(32) args=(y, n)\n"


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f"Here it is:\n\n{GOOD}\nIt is fast.",
        f"<think>\nFirst ```cuda\nint x;\n``` then\n</think>\n{GOOD}",
        f"thought without its beginning\n</think>{GOOD}".replace("</think>```", "</think>\n```"),
        f"<think>it ends with </think>, or so\n</think>\n{GOOD}",
        f"<think>a block\n```cuda\nint x; // not closed\n</think>\n{GOOD}",
        f"Well.\n<think>hm</think>\n{GOOD}",
        f"drafts\n```cuda\nint x;\n</think>\n{GOOD}",
        f"```text\nnot this\n```\n{GOOD}",
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("```", "````"),
        GOOD.replace("```cuda", "   ```  CUDA  "),
    ],
)
def test_the_one_block_is_taken_whatever_stands_around_it(answer):
    found = extract(answer)
    assert (found.source, found.problem) == (KERNEL, None)


@pytest.mark.parametrize(
    "before", ["", "<think>hm</think>\n", "hm\n</think>\n", "<think>a</think> <think>b</think>\n"]
)
@pytest.mark.parametrize(
    "comment",
    [
        "// ends as </think> does",
        "/* <think>\n</think>\n*/",
        '__device__ const char* end = "</think>";',
        "// <think>",
    ],
)
def test_a_word_in_a_kernel_ends_no_reasoning(before, comment):
    source = f"{comment}\n{KERNEL}"
    found = extract(f"{before}Here:\n```cuda\n{source}```\nDone.")
    assert (found.source, found.problem) == (source, None)
    # Nor does it begin any: the lines are still those of the answer.
    unclosed = extract(f"{before}```cuda\n{source}")
    assert unclosed.problem is not None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("I cannot.", "no fenced block"),
        (KERNEL, "no fenced block"),
        (GOOD.replace("cuda", "cpp"), "marked 'cpp'"),
        (GOOD.replace("cuda", ""), "not marked"),
        (f"{GOOD}\n{GOOD}", "2 blocks"),
        (GOOD[:-3], "line 1 of the answer"),
        (f"Well:\n\n{GOOD[:-4]}", "line 3 of the answer"),
        ("```cuda\n```", "empty"),
        ("```cuda\nint x;\n```", "__global__"),
        ("```cuda\n// __global__ void k()\n```", "__global__"),
        (f"<think>{GOOD}", "reasoning"),
        (f"Well. <think>{GOOD}", "reasoning"),
        (f"{GOOD}\nThat was a draft.</think>\n", "no fenced block"),
        ("```cuda int x; ```", "must stand alone"),
        (GOOD.replace("__global__", "// assay: launch k grid=1\n__global__", 1), "launch plan"),
        ("```cuda\n" + KERNEL + "x" * (1 << 20) + "\n```", "at most 1048576"),
        ("`" * (5 << 20), "are not read"),
    ],
    ids=lambda value: str(value)[:24].replace("\n", "|"),
)
def test_another_form_is_said_in_words_and_never_repaired(answer, said):
    found = extract(answer)
    assert found.source is None
    assert said in found.problem
    assert len(found.problem) < 400


@pytest.mark.parametrize("answer", [GOOD[:-3], "<think>hm", "```cpp\nint x;"])
def test_what_was_cut_off_is_told_so(answer):
    assert "length limit" in extract(answer, cut=True).problem
    assert "length limit" not in extract(answer).problem


@given(st.text(), st.booleans())
def test_nothing_raises_and_there_is_a_source_or_a_problem(answer, cut):
    found = extract(answer, cut=cut)
    assert (found.source is None) != (found.problem is None)


@given(st.text(alphabet="`~ \nacdu<>think/*\"'"))
def test_nothing_raises_among_fences(answer):
    found = extract("```cuda\n" + answer)
    assert (found.source is None) != (found.problem is None)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r"), max_size=200))
def test_what_is_wrapped_is_found_again(text):
    source = f"__global__ void k();\n/*{text.replace('*/', '').replace('assay', '')}*/ int end;\n"
    found = extract(wrapped(source))
    assert found.source == source


def test_the_plan_is_read_with_it():
    assert extract(wrapped(LINE + KERNEL)).plan.steps[0].kernel == "k"
    assert extract(wrapped(KERNEL)).plan is None


TOKENS = ["__global__", "void", "k", "(", "float", "*", "y", ")", "{", "y", "[", "0", "]", "=", "1e-3f", ";", "}"]
GAPS = st.sampled_from([" ", "\n", "\t", " // c\n", "/* * c */", "\r\n", " \\\n "])


@given(st.lists(GAPS, min_size=len(TOKENS), max_size=len(TOKENS)))
def test_comments_and_space_change_no_kernel(gaps):
    text = "".join(token + gap for token, gap in zip(TOKENS, gaps, strict=True))
    assert canonical_source(text) == canonical_source(" ".join(TOKENS))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a + +b", "a ++ b"),
        ("int ab;", "int a b;"),
        ('x = "a b";', 'x = "ab";'),
        ('x = "// a";', 'x = "";'),
        ("#define A\nB", "#define A B"),
        (LINE + KERNEL, KERNEL),
        (LINE + KERNEL, LINE.replace("32", "64") + KERNEL),
        ("a - -1", "a - 1"),
        ("1.0f", "1.0 f"),
        ("c = ' ';", "c = '\t';"),
        ('#define A "a b"', '#define A "a  b"'),
        ("// note \\\n" + LINE + KERNEL, "// note \\\n" + LINE.replace("32", "64") + KERNEL),
        ("/\\\n*\n" + LINE + "*/" + KERNEL, "/\\\n*\n" + LINE.replace("32", "64") + "*/" + KERNEL),
    ],
)
def test_what_differs_stays_different(one, other):
    assert canonical_source(one) != canonical_source(other)


def test_what_only_comments_say_of_a_launch_changes_no_kernel():
    other = LINE.replace("32", "64")
    assert canonical_source(f"/*\n{LINE}*/\n{KERNEL}") == canonical_source(f"/*\n{other}*/\n{KERNEL}")
    assert canonical_source(f"/*\n{LINE}*/\n{KERNEL}") == canonical_source(KERNEL)


def test_strategies_are_read_off_code_only():
    assert strategies("// __shared__\n" + KERNEL) == ()
    assert strategies('const char* s = "__shfl_sync";') == ()
    source = LINE + LINE + KERNEL.replace("y[0] = n;", "float4 v; atomicAdd(y, 1.f); for (;; i += gridDim.x) ;")
    assert strategies(source) == ("vectorised access", "grid-stride loop", "atomics", "several launches")


def test_a_long_text_takes_no_long_time():
    for text in (
        "```\n" * 200_000,
        "<think>" * 200_000,
        "</think>" * 200_000,
        "<think></think>" * 100_000,
        "/*" * 500_000,
        '"' * 500_000,
        "//\\\n" * 200_000,
    ):
        assert re.search(r"\w", extract("```cuda\n" + text[:900_000] + "\n```").problem)


def test_a_raw_string_is_one_literal_and_ends_at_its_own_mark():
    source = 'auto a = R"x(// no comment )" )y" )x"; // a comment\nint b;'
    assert canonical_source(source) == 'auto a = R"x(// no comment )" )y" )x" ; int b ;'
    assert canonical_source('fooR"(a" /* gone */ b') == 'fooR "(a" b'
    assert extract('```cuda\nauto s = R"(__global__)";\n```').problem.startswith("The block has no kernel")
    assert canonical_source('int a; R"(open // kept') == 'int a ; R"(open // kept'


ATOMS = (
    *('R"(', 'uR"a(', '"', '\\"', "'", "\\'", "/*", "//", "`", "``` ", "```\n", "<think>", "#", "# ", '#"', "#/*"),
    *("+=", "+= ", "+=a *", "stride=", "stride =", "# pragma ", "make_a", "__shfl", "fmaf (", " ", "\t"),
    *(" \n", "\\\n", "1", "1'", ".", "1e+", "a", "// assay:", "(", "{"),
)


@pytest.mark.parametrize("atom", ATOMS, ids=repr)
def test_hostile_text_costs_time_in_proportion_to_its_length(atom):
    """These take a third of a second at most; what grows with the square takes five seconds to minutes."""
    long = atom * ((1 << 17) // len(atom))
    answers = (long, f"```{long}x y", f"```cuda\n__global__ {long}\n```")
    for read, texts in (
        (extract, answers),
        (canonical_source, (long, f"#{long}")),
        (strategies, (long, f"+={long}x")),
    ):
        for text in texts:
            began_s = time.process_time()
            read(text)
            assert time.process_time() - began_s < 3
