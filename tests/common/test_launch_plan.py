import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from common.launch_directives import as_directives, parse_directives
from common.launch_plan import Copy, Fill, Launch, LaunchPlan, PlanError, Temporary
from common.wire import DType

LAUNCH = "launch k grid=(1) block=(1) args=()"


def parse(line):
    return parse_directives(f"// assay: {line}\n").steps[0]


def test_every_directive_is_read():
    plan = parse_directives(
        "// assay: temp partial float32 (ceil_div(n, 1024), 4)\n"
        "__global__ void k();\r\n"
        "// assay: fill partial value=-0.5\r\n"
        "// assay:\tlaunch ns::scale<float, 4> shared=n * 4 cluster=(1, 1) cooperative "
        "args=(x, partial, n, 0.5, -1e-5, 3, min(n, 7)) block=(32, 8) grid=(n, 2, 3)\n"
        "// assay:copy x y"
    )
    assert plan == LaunchPlan(
        temporaries=(Temporary(name="partial", dtype=DType.FLOAT32, shape=("ceil_div(n, 1024)", 4)),),
        steps=(
            Fill(target="partial", value=-0.5),
            Launch(
                kernel="ns::scale<float, 4>", grid=("n", 2, 3), block=(32, 8), cluster=(1, 1), shared_bytes="n * 4",
                cooperative=True, args=("x", "partial", "n", 0.5, -1e-5, 3, "min(n, 7)"),
            ),
            Copy(source="x", target="y"),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("kernel", ["k", "ns::k", "f(float const*, int)", "void ns::f<4>(float*)", "cooperative"])
def test_kernel_names_may_hold_blanks_commas_and_parentheses(kernel):
    assert parse(f"launch {kernel} grid=(1) block=(1) args=()").kernel == kernel
    assert parse(f"launch {kernel} cooperative grid=(1) block=(1) args=()").kernel == kernel


def test_defaults_of_a_launch():
    launch = parse(LAUNCH)
    assert (launch.shared_bytes, launch.cluster, launch.cooperative, launch.args) == (0, None, False, ())
    assert parse("fill x value=3").value == 3


@pytest.mark.parametrize(
    "source",
    [
        "",
        "__global__ void k();",
        f"/* a comment\n// assay: {LAUNCH}\n*/",
        f'const char* s = R"x(\n// assay: {LAUNCH}\n)" )x";',
        f'const char* s = u8R"(\n// assay: {LAUNCH}\n)";',
        f'const char* s = "\\\n// assay: {LAUNCH}\\\n";',
        f'const char* s = "// assay: {LAUNCH}";',
        "// assay is a grader",
        "// see `assay: launch` in the manual",
        "// essay: of no interest",
        "// note: launch it with 256 threads",
    ],
)
def test_no_directive_is_no_plan(source):
    assert parse_directives(source) is None


@pytest.mark.parametrize(
    "before",
    [
        "int a = 1'000'000;",
        "char c = '\"';",
        "char c = '\\'';",
        'const char* s = "\\"/*";',
        'const char* s = fooR"(";',
        'const char* s = R"(";/*)";',
        "// a comment with /* in it",
        "// don't",
        '// a " in a comment',
        "#error don't",
        "/* // */",
        "// a comment that goes on \\",
        "// a comment that goes on \\\r",
        "int a = 7 / 2;",
    ],
)
def test_what_stands_before_a_directive_does_not_hide_it(before):
    source = f"{before}\n// assay: {LAUNCH}\n"
    assert parse_directives(source).steps[0].kernel == "k"
    with pytest.raises(PlanError) as caught:
        parse_directives(f"{before}\n// assay: lunch k\n")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (" // assay: launch k", "looks like a directive"),
        ("\t// assay: launch k", "looks like a directive"),
        ("//assay: temp", "looks like a directive"),
        ("//  assay: temp", "looks like a directive"),
        ("// Assay: launch k", "looks like a directive"),
        ("// assay : launch k", "looks like a directive"),
        ("// assay launch k grid=(1)", "looks like a directive"),
        ("// asay: launch k", "looks like a directive"),
        ("// assay; lanch k", "looks like a directive"),
        ("/// assay: launch k", "looks like a directive"),
        ("int x; // assay: launch k", "looks like a directive"),
        ("\ufeff// assay: launch k", "looks like a directive"),
    ],
)
def test_what_only_looks_like_a_directive_is_not_ignored(line, reason):
    with pytest.raises(PlanError, match=reason) as caught:
        parse_directives(f"// assay: {LAUNCH}\n\n{line}\n")
    assert caught.value.line == 3
    quoted, under = str(caught.value).split("\n")[1:]
    assert quoted[under.index("^") :].startswith("//")


MALFORMED = [
    # the directive, what the caret points at (the rest of the line from there), the reason
    ("", "", "expected a directive (temp, launch, fill, copy)"),
    ("lunch k", "lunch k", "unknown directive 'lunch': did you mean 'launch'?"),
    ("synchronize", "synchronize", "(known: temp, launch, fill, copy)"),
    ("launch", "", "expected the name of a kernel"),
    ("launch grid=(1) block=(1) args=()", "grid=(1) block=(1) args=()", "expected the name of a kernel"),
    ("launch k block=(1) args=()", "", "grid=(…) is missing"),
    ("launch k grid=(1) args=()", "", "block=(…) is missing"),
    ("launch k grid=(1) block=(1)", "", "args=(…) is missing"),
    ("launch k grid=1 block=(1) args=()", "1 block=(1) args=()", "a list stands in parentheses"),
    ("launch k grid=(1) junk block=(1) args=()", "junk block=(1) args=()", "expected a blank and the next key"),
    ("launch k grid=(1)block=(1) args=()", "block=(1) args=()", "expected a blank and the next key"),
    ("launch k grid=(1) blok=(1) args=()", "blok=(1) args=()", "unknown key 'blok': did you mean 'block'?"),
    ("launch k shared_bytes=4 args=()", "shared_bytes=4 args=()", "did you mean 'shared'?"),
    ("launch k grid=(1) block=(1) args=() grid=(2)", "grid=(2)", "'grid' is given twice"),
    ("launch k cooperative cooperative args=()", "cooperative args=()", "'cooperative' is given twice"),
    ("launch k grid=(1 block=(1) args=()", "(1 block=(1) args=()", "this '(' is never closed"),
    ("launch k grid=(1)) block=(1) args=()", ") block=(1) args=()", "this ')' closes nothing"),
    ("launch k grid=() block=(1) args=()", "() block=(1) args=()", "at least one extent"),
    ("launch k grid=(1,2,3,4) block=(1) args=()", "4) block=(1) args=()", "at most 3"),
    ("launch k grid=(1) block=(1,2,3,4) args=()", "4) args=()", "at most 3"),
    ("launch k grid=(n/2) block=(1) args=()", "/2) block=(1) args=()", "write '//'"),
    ("launch k grid=(n) block=(2**5) args=()", "**5) args=()", "'**' is not allowed"),
    ("launch k grid=(n) block=(32.0) args=()", "32.0) args=()", "not a plain integer"),
    ("launch k grid=(n) block=(32u) args=()", "u) args=()", "a number has no suffix here: write 32"),
    ("launch k grid=(n) block=(1) shared= args=()", " args=()", "'shared' has no value"),
    ("launch k grid=(n) block=(1) shared=4 4 args=()", "4 args=()", "expected an operator or the end"),
    ("launch k grid=(n) block=(1) cluster=(n,) args=()", ") args=()", "nothing between the commas"),
    ("launch k grid=(n) block=(1) args=(a,,b)", ",b)", "nothing between the commas"),
    ("launch k grid=(n) block=(1) args=(1e-5f)", "f)", "a number has no suffix here: write 1e-5"),
    ("launch k<<<n, 1>>>(a, n)", "<<<n, 1>>>(a, n)", "write grid=(…) block=(…) args=(…)"),
    ("launch k grid=(n) block=(1) args=(a, inf)", "inf)", "a number must be finite"),
    ("launch k grid=(n) block=(1) args=(a, 1e999)", "1e999)", "a number must be finite"),
    ("launch k grid=(n) block=(1) args=(a, &b)", "&b)", "expected an integer, a name or an operator"),
    ("launch k grid=(n) block=(1) args=(0.5 * n)", "0.5 * n)", "not a plain integer"),
    ("launch k grid=(n) block=(1) args=(a) // why", "// why", "expected a blank and the next key"),
    ("launch k grid=(n) block=(1) args=(a) \\", "\\", "a directive stands on one line"),
    ("launch k grid=(n) block=(1) cooperative=1 args=()", "=1 args=()", "'cooperative' stands alone"),
    ("launch k grid=(n) block=(1) args=() cooperative yes", "yes", "'cooperative' stands alone"),
    (f"launch k grid=(n) block=(1) args=({'1, ' * 64}7)", "7)", "at most 64"),
    ("temp", "", "expected the name of the temporary"),
    ("temp 1a float32 (n)", "1a float32 (n)", "expected the name of the temporary"),
    ("temp a", "", "expected a dtype"),
    ("temp a float33 (n)", "float33 (n)", "unknown dtype 'float33': did you mean 'float32'?"),
    ("temp a float32", "", "expected the extents"),
    ("temp a float32 n", "n", "expected the extents"),
    ("temp a float32 ()", "()", "at least one extent"),
    ("temp a float32 (n) x", "x", "expected a blank and the next key, or the end"),
    ("temp a float32 (1,1,1,1,1,1,1,1,9)", "9)", "at most 8"),
    ("fill", "", "expected the name of the tensor to fill"),
    ("fill a", "", "value=NUMBER is missing"),
    ("fill a 0", "0", "expected value=NUMBER"),
    ("fill a value=n", "n", "the value of a fill is a plain number"),
    ("fill a value=0 value=1", "value=1", "'value' is given twice"),
    ("fill a vale=0", "vale=0", "did you mean 'value'?"),
    ("copy a", "", "expected the name of the tensor to copy to"),
    ("copy a b c", "c", "expected the end of the line"),
    ("copy a,b", ",b", "expected a blank after"),
]


@pytest.mark.parametrize(("directive", "culprit", "reason"), MALFORMED)
def test_a_malformed_directive_is_quoted_with_a_caret(directive, culprit, reason):
    line = f"// assay: {directive}".rstrip()
    with pytest.raises(PlanError) as caught:
        parse_directives(f"#include <cuda_fp16.h>\n{line}\n")
    assert reason in caught.value.reason
    assert caught.value.line == 2
    message, quoted, under = str(caught.value).split("\n")
    assert message.startswith("line 2: ")
    assert quoted[under.index("^") :] == culprit[:60]


def test_limits_of_a_plan():
    full = f"// assay: {LAUNCH}\n" * 256
    assert len(parse_directives(full).steps) == 256
    with pytest.raises(PlanError, match="at most 256 steps") as caught:
        parse_directives(full + "// assay: copy x y\n")
    assert caught.value.line == 257
    temporaries = "".join(f"// assay: temp t{i} int8 (1)\n" for i in range(257))
    with pytest.raises(PlanError, match="at most 256 temporaries"):
        parse_directives(temporaries + full)
    with pytest.raises(PlanError, match="at least one step"):
        parse_directives("// assay: temp t float32 (1)\n")


def test_two_temporaries_of_one_name():
    with pytest.raises(PlanError, match="already a temporary named 'a'") as caught:
        parse_directives(f"// assay: temp a int8 (1)\n// assay: {LAUNCH}\n// assay: temp a int8 (2)\n")
    assert caught.value.line == 3
    quoted, under = str(caught.value).split("\n")[1:]
    assert quoted[under.index("^") :] == "a int8 (2)"
    twice = Temporary(name="a", dtype=DType.INT8, shape=(1,))
    with pytest.raises(ValidationError, match=r"temporaries\[1\]: there is already a temporary named 'a'"):
        LaunchPlan(temporaries=(twice, twice), steps=(Copy(source="x", target="y"),))


@pytest.mark.parametrize(
    ("changes", "place", "reason"),
    [
        ({"grid": ["n", "n / 2"]}, "steps[0].grid[1]", "write '//'"),
        ({"block": ["n +"]}, "steps[0].block[0]", "expected an integer"),
        ({"cluster": ["9**9"]}, "steps[0].cluster[0]", "not allowed"),
        ({"shared_bytes": "pow(2, 3)"}, "steps[0].shared_bytes", "unknown function"),
        ({"args": ["x", "a b"]}, "steps[0].args[1]", "expected an operator or the end"),
        ({"args": ["0.5"]}, "steps[0].args[0]", "write a number without quotes"),
        ({"args": [float("nan")]}, "steps[0].args[0]", "must be finite"),
        ({"grid": [1 << 63]}, "steps[0].grid[0]", "63 bits"),
    ],
)
def test_a_json_plan_is_read_when_it_arrives(changes, place, reason):
    launch = {"kind": "launch", "kernel": "k", "grid": [1], "block": [1], "args": []}
    LaunchPlan.model_validate({"steps": [launch]})
    with pytest.raises(ValidationError) as caught:
        LaunchPlan.model_validate({"steps": [{**launch, **changes}]})
    assert place in str(caught.value)
    assert reason in str(caught.value)


def test_other_places_of_a_json_plan():
    move = {"kind": "copy", "source": "x", "target": "y"}
    with pytest.raises(ValidationError, match=r"temporaries\[0\]\.shape\[0\]: '\*\*' is not allowed"):
        LaunchPlan.model_validate(
            {"temporaries": [{"name": "t", "dtype": "float32", "shape": ["2**3"]}], "steps": [move]}
        )
    with pytest.raises(ValidationError, match=r"steps\[0\]\.value: a number must be finite"):
        LaunchPlan.model_validate_json('{"steps": [{"kind": "fill", "target": "y", "value": Infinity}]}')
    for wrong in ({"steps": []}, {"steps": [{**move, "target": "1y"}]}, {"steps": [{**move, "source": "é"}]},
                  {"steps": [{"kind": "fill", "target": "y", "value": True}]}, {"steps": [{**move, "size": 4}]},
                  {"steps": [{"kind": "launch", "kernel": "k\n", "grid": [1], "block": [1], "args": []}]},
                  {"steps": [{"kind": "launch", "kernel": "k", "grid": [1.5], "block": [1], "args": []}]},
                  {"steps": [move] * 257}):  # fmt: skip
        with pytest.raises(ValidationError):
            LaunchPlan.model_validate(wrong)


names = st.from_regex(r"[a-z_][A-Za-z0-9_]{0,10}", fullmatch=True)
extents = st.one_of(
    st.integers(-9, 1 << 40), names.map("ceil_div({}, 32) * 4".format), names, names.map("min({0}, (7))".format)
)
numbers = st.one_of(st.integers(-(1 << 40), 1 << 40), st.floats(allow_nan=False, allow_infinity=False))
lists = st.lists(extents, min_size=1, max_size=3).map(tuple)
launches = st.builds(
    Launch,
    kernel=st.sampled_from(["k", "a::b", "scale<float, 4>", "f(float const*, int)", "void g<(3 > 2)>(int)"]),
    grid=lists,
    block=lists,
    cluster=st.none() | lists,
    shared_bytes=extents,
    cooperative=st.booleans(),
    args=st.lists(extents | numbers, max_size=6).map(tuple),
)
plans = st.builds(
    LaunchPlan,
    temporaries=st.lists(
        st.builds(Temporary, name=names, dtype=st.sampled_from(DType), shape=lists),
        max_size=3,
        unique_by=lambda temporary: temporary.name,
    ).map(tuple),
    steps=st.lists(
        launches | st.builds(Fill, target=names, value=numbers) | st.builds(Copy, source=names, target=names),
        min_size=1,
        max_size=4,
    ).map(tuple),
)


@given(plans)
def test_directives_and_json_say_the_same(plan):
    assert parse_directives(as_directives(plan)) == plan
    assert LaunchPlan.model_validate_json(plan.model_dump_json()) == plan


@given(st.one_of(st.text(max_size=200), st.text("// assay:\nlunchgridboktempfvcy=(),. \\\"'R*", max_size=200)))
def test_any_source_gives_a_plan_or_a_plan_error(source):
    for text in (source, f"// assay: {source}", f"// assay: launch k {source}"):
        try:
            plan = parse_directives(text)
        except PlanError:
            continue
        assert plan is None or plan.steps


def test_a_large_hostile_source_is_read_quickly():
    for source in ("//\\\n" * 200_000, '"\\' * 400_000, 'R"(' * 300_000, "//essa: lunc\n" * 60_000, "/" * 800_000):
        assert parse_directives(source) is None or source.startswith("//essa")


def raw(**fields) -> dict:
    return {"kind": "launch", "kernel": "k", "grid": [1], "block": [1], "args": [{"data": "00" * 16, **fields}]}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (raw(data="00112233445566770000000000000000", addresses=[{"at": 0, "buffer": "x"}]), "must be 0"),
        (raw(addresses=[{"at": 4, "buffer": "x"}]), "multiples of 8"),
        (raw(addresses=[{"at": 8, "buffer": "x"}, {"at": 8, "buffer": "x"}]), "multiples of 8"),
        (raw(addresses=[{"at": 16, "buffer": "x"}]), "must be 0"),
        ({"kind": "fill", "target": "y", "offset_bytes": 4}, "needs data"),
        ({"kind": "fill", "target": "y", "data": "0011", "size_bytes": 5}, "cannot be filled"),
        ({"kind": "fill", "target": "y", "data": "001122", "size_bytes": 6}, "1, 2, 4 or 8 bytes"),
        ({"kind": "fill", "target": "y", "data": "00112233", "size_bytes": 8, "offset_bytes": 2}, "multiple of them"),
        ({"kind": "copy", "source": "x", "target": "y", "source_offset_bytes": 4}, "needs size_bytes"),
    ],
)
def test_bytes_and_stretches_that_say_nothing_are_refused(step, said):
    with pytest.raises(ValueError, match=said):
        LaunchPlan.model_validate({"steps": [step]})


def test_all_data_of_a_plan_has_a_limit():
    step = {"kind": "fill", "target": "y", "data": "00" * 65536, "size_bytes": 65536}
    LaunchPlan.model_validate({"steps": [step]})
    with pytest.raises(ValueError, match="131072 bytes, and 65536 are allowed"):
        LaunchPlan.model_validate({"steps": [step, step]})


def test_what_only_json_can_say_is_told_in_words():
    steps = [
        raw(addresses=[{"at": 8, "buffer": "x", "offset_bytes": 64}]),
        {"kind": "fill", "target": "y", "data": "00", "offset_bytes": 4, "size_bytes": 8},
        {"kind": "copy", "source": "x", "target": "y", "size_bytes": 8},
    ]
    assert as_directives(LaunchPlan.model_validate({"steps": steps})) == (
        "// assay: launch k grid=(1) block=(1) args=({bytes 0000000000000000, x + 64 bytes})\n"
        "// assay: fill y[bytes 4 to 12] bytes 00\n"
        "// assay: copy x[bytes 0 to 8] y[bytes 0 to 8]\n"
    )
