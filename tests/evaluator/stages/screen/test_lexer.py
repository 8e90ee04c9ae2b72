import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.stages.screen.lexer import pieces, without_plan

PLAN = "// assay: launch k grid=(1) block=(32) args=(x)"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("int a;\n", "int a;\n"),
        (f"{PLAN}\nint a;\n{PLAN}", "//\nint a;\n//"),
        (f"{PLAN}\r\nint a;\r\n", "//\nint a;\r\n"),
        (f" {PLAN}\n", f" {PLAN}\n"),
        (f"int a; {PLAN}\n", f"int a; {PLAN}\n"),
        (f"/*\n{PLAN}\n*/", f"/*\n{PLAN}\n*/"),
        (f'const char* s = R"(\n{PLAN}\n)";', f'const char* s = R"(\n{PLAN}\n)";'),
        (f"{PLAN} \\\nint a;\n", f"{PLAN} \\\nint a;\n"),
        (f"{PLAN} ??/\nint a;\n", f"{PLAN} ??/\nint a;\n"),
        (f"#define A(x) x \\\n{PLAN}\nint a;\n", "#define A(x) x \\\n//\nint a;\n"),
    ],
)
def test_a_plan_is_an_empty_comment_to_the_compiler_and_nothing_else_changes(text, left):
    assert without_plan(text) == left


@given(st.lists(st.sampled_from([PLAN, "\n", "\\", "??/", '"', "'", 'R"(', ')"', "/*", "*/", "//", "x", " ", "\r"])))
def test_code_and_lines_stay(parts):
    text = "".join(parts)
    left = without_plan(text)
    assert left.count("\n") == text.count("\n")
    assert code(left) == code(text)
    assert without_plan(left) == left


def code(text):
    return [(kind, text[start:end]) for kind, start, end in pieces(text) if kind != "line_comment"]
