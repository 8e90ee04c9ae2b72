import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.expressions import LIMIT, ExpressionError, caret, evaluate_expression, names_in

NAMES = {"n": 1000003, "rows": 7, "cols": 130}


def ceil_div(a, b):
    return -(-a // b)


def python_value(text):
    """What Python makes of the same text, with every intermediate result held to the limit."""

    def value(node):
        if isinstance(node, ast.Constant):
            result = node.value
        elif isinstance(node, ast.Name):
            result = NAMES[node.id]
        elif isinstance(node, ast.UnaryOp):
            result = -value(node.operand)
        elif isinstance(node, ast.Call):
            result = {"ceil_div": ceil_div, "min": min, "max": max}[node.func.id](*map(value, node.args))
        else:
            left, right = value(node.left), value(node.right)
            if isinstance(node.op, ast.Add):
                result = left + right
            elif isinstance(node.op, ast.Sub):
                result = left - right
            elif isinstance(node.op, ast.Mult):
                result = left * right
            elif isinstance(node.op, ast.FloorDiv):
                result = left // right
            else:
                result = left % right
        if abs(result) >= LIMIT:
            raise OverflowError
        return result

    return value(ast.parse(text.strip(), mode="eval").body)


leaves = st.one_of(st.integers(0, 1 << 40).map(str), st.sampled_from(sorted(NAMES)))


def grow(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from([" + ", "-", "*", " // ", "%"]), inner).map("".join),
        inner.map("({})".format),
        inner.map("-{}".format),
        st.tuples(inner, inner).map(lambda pair: "ceil_div({}, {})".format(*pair)),
        st.tuples(st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=3)).map(
            lambda call: f"{call[0]}({','.join(call[1])})"
        ),
    )


@given(st.recursive(leaves, grow, max_leaves=12))
def test_agrees_with_python(text):
    if len(text) > 256:
        return
    try:
        expected = python_value(text)
    except (ZeroDivisionError, OverflowError):
        with pytest.raises(ExpressionError):
            evaluate_expression(text, NAMES)
        return
    assert evaluate_expression(text, NAMES) == expected
    assert set(names_in(text)) == {node.id for node in ast.walk(ast.parse(text, mode="eval"))
                                   if isinstance(node, ast.Name)} - {"ceil_div", "min", "max"}  # fmt: skip


@settings(max_examples=400, deadline=500)
@given(st.one_of(st.text(max_size=300), st.text("0123456789n+-*/%(), mincel_dvax", max_size=300)))
def test_any_text_gives_an_integer_or_an_expression_error(text):
    errors = []
    for read in (lambda: evaluate_expression(text, NAMES), lambda: names_in(text)):
        try:
            read()
        except ExpressionError as error:
            errors.append(error)
    assert all(0 <= error.position <= len(text) and "^" in str(error) for error in errors)


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("9**9**9", "'**' is not allowed", 1),
        ("n / 2", "write '//' or ceil_div", 2),
        ("n // (rows - 7)", "division by zero", 2),
        ("n % 0", "division by zero", 2),
        ("ceil_div(n, 0)", "division by zero", 0),
        ("ceil_div(n)", "takes two values", 0),
        ("m + 1", "unknown name 'm' (known here: cols, n, rows)", 0),
        ("pow(n, 2)", "unknown function 'pow'", 0),
        ("9223372036854775808", "63 bits", 0),
        ("9223372036854775807 + 1", "63 bits", 20),
        ("3037000500 * 3037000500", "63 bits", 11),
        ("n +", "expected an integer, a name or '('", 3),
        ("(n", "expected ')'", 2),
        ("n)", "expected an operator or the end", 1),
        ("n rows", "expected an operator or the end", 2),
        ("", "expected an integer, a name or '('", 0),
        ("1.5", "not a plain integer", 0),
        ("2 * 256u", "not a plain integer", 4),
        ("0x10", "not a plain integer", 0),
        ("n²", "expected an integer, a name or an operator", 1),
        ("٣", "expected an integer, a name or an operator", 0),
        ("n.real", "expected an integer, a name or an operator", 1),
        ("min()", "expected an integer, a name or '('", 4),
        ("n; rows", "expected an integer, a name or an operator", 1),
    ],
)
def test_what_is_wrong_is_named_at_its_place(text, reason, position):
    with pytest.raises(ExpressionError) as caught:
        evaluate_expression(text, NAMES)
    assert reason in caught.value.reason
    assert caught.value.position == position


@pytest.mark.parametrize("nest", [lambda depth: "(" * depth + "n" + ")" * depth, lambda depth: "-" * depth + "n"])
def test_depth_32_is_read_and_33_is_not(nest):
    assert evaluate_expression(nest(32), NAMES) == NAMES["n"]
    with pytest.raises(ExpressionError, match="nested deeper than 32"):
        evaluate_expression(nest(33), NAMES)


def test_256_characters_are_read_and_257_are_not():
    assert evaluate_expression("n" + " " * 255, NAMES) == NAMES["n"]
    with pytest.raises(ExpressionError, match="at most 256 characters"):
        evaluate_expression("n" + " " * 256, NAMES)


def test_the_limit_is_exclusive_on_both_sides():
    assert evaluate_expression("9223372036854775807", {}) == LIMIT - 1
    assert evaluate_expression("-9223372036854775807", {}) == 1 - LIMIT
    assert evaluate_expression(LIMIT - 1, {}) == LIMIT - 1
    for value in (LIMIT, -LIMIT, 10**5000):
        with pytest.raises(ExpressionError, match="63 bits"):
            evaluate_expression(value, {})
        with pytest.raises(ExpressionError, match="63 bits"):
            names_in(value)
    with pytest.raises(ExpressionError, match="63 bits"):
        evaluate_expression("-9223372036854775807 - 1", {})


def test_reading_names_does_not_compute():
    # With other sizes these have a value, so they cannot be refused before the sizes are known.
    assert names_in("n // (rows - 7) + ceil_div(n, rows - 1) % (n - n)") == ("n", "rows")
    assert names_in("4611686018427387904 * (3 - n)") == ("n",)


def test_the_caret_stays_under_the_culprit_in_a_long_text():
    text = "a" * 150 + "!" + "b" * 150
    first, second = caret(text, 150).split("\n")
    assert first[second.index("^")] == "!"
    assert len(first) < 200
