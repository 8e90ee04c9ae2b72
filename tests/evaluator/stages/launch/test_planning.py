import struct
import time
from dataclasses import replace

import pytest

from common.contract import Phase, Status
from common.gpu_limits import limits_of
from common.launch_plan import Fill, Launch, LaunchPlan
from common.wire import DType
from evaluator.backends.session import BufferCopy, BufferFill, Entry, Parameter, Pointer, Program
from evaluator.errors import Ruling
from evaluator.problems.catalogue import find_problem as problem_by_id
from evaluator.problems.problem import Scalar, Tensor
from evaluator.stages.compile.kernel_names import matching, shortest
from evaluator.stages.launch.arguments import ArgumentError, pack, pointer_misfit
from evaluator.stages.launch.planning import SizedPlan, plan_launches

SIZES = {"n": 1000003}
_KINDS = {"float": ("float", 4), "double": ("float", 8), "int": ("int", 4), "unsigned int": ("uint", 4),
          "long long": ("int", 8), "unsigned long": ("uint", 8), "short": ("int", 2), "Params": ("struct", 24),
          "__half": ("struct", 2), "unsigned char": ("uint", 1)}  # fmt: skip


def parameter(declaration):
    kind, name = declaration.rsplit(" ", 1)
    if kind.endswith("*"):
        return Parameter(name, kind, "pointer", 8, 0, kind[:-1].removeprefix("const ").strip())
    return Parameter(name, kind, *_KINDS[kind], 0)


def entry(name, *declarations, symbol=None):
    return Entry(symbol or f"_Z{name}", name, tuple(parameter(each) for each in declarations))


def program(*entries, arch="sm_80"):
    return Program("", entries, arch)


ADD = entry("add(float const*, float const*, float*, int)", "const float* a", "const float* b", "float* c", "int n")
LINE = "// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)\n"
SHAPE = "grid=(ceil_div(n, 256)) block=(256)"
VECTOR_ADD = problem_by_id("vector_add")
SAXPY = problem_by_id("saxpy")


def plan(source=LINE, entries=(ADD,), problem=VECTOR_ADD, json_plan=None, arch="sm_80", **rest):
    planned = plan_launches(problem, program(*entries, arch=arch), json_plan, source, **rest)
    assert (planned.ruling is None) != (planned.checked_plan is None)
    return planned


def at(source=LINE, sizes=SIZES, memory_bytes=8 << 30, **rest):
    planned = plan(source, **rest)
    assert planned.ruling is None, planned.ruling
    return planned.checked_plan.at(sizes, memory_bytes)


def refused(ruling, text, status=Status.INVALID_SUBMISSION):
    assert isinstance(ruling, Ruling)
    assert (ruling.status, ruling.phase) == (status, Phase.LAUNCH)
    assert text in f"{ruling.message}\n{ruling.hint}"
    return ruling


def test_a_plan_becomes_a_launch():
    sized_plan = at()
    (launch,) = sized_plan.steps
    assert (launch.symbol, launch.grid, launch.block) == (ADD.symbol, (3907, 1, 1), (256, 1, 1))
    assert launch.arguments == (Pointer("a"), Pointer("b"), Pointer("c"), struct.pack("<i", 1000003))
    assert [(b.name, b.role, b.dtype, b.shape, b.size_bytes) for b in sized_plan.buffers] == [
        (name, role, DType.FLOAT32, (1000003,), 4000012)
        for name, role in (("a", "input"), ("b", "input"), ("c", "output"))
    ]


def test_a_json_plan_is_the_same_as_directives_but_not_together():
    launch = Launch(kernel="add", grid=("ceil_div(n, 256)",), block=(256,), args=("a", "b", "c", "n"))
    json_plan = LaunchPlan(steps=(launch,))
    assert at("", json_plan=json_plan) == at()
    assert plan("", json_plan=json_plan).checked_plan.plan_source == "json"
    assert plan().checked_plan.plan_source == "directives"
    refused(plan(json_plan=json_plan).ruling, "Keep one of the two")
    refused(plan("// assay: lunch k\n", json_plan=json_plan).ruling, "did you mean 'launch'?")


def test_inference_binds_by_name_in_any_order():
    swapped = entry("add", "int n", "float* c", "const float* b", "const float* a")
    planned = plan("", (swapped,)).checked_plan
    assert (planned.plan_source, planned.binding) == ("inferred", f"n, c, b, a bound by name; {SHAPE}")
    (launch,) = planned.at(SIZES).steps
    assert launch.arguments == (struct.pack("<i", 1000003), Pointer("c"), Pointer("b"), Pointer("a"))
    assert (launch.grid, launch.block) == ((3907, 1, 1), (256, 1, 1))


def test_inference_binds_by_order_when_one_name_is_foreign():
    # `c` and `a` are swapped: all go by order, so the names that are known count for nothing.
    odd = entry("add", "const float* c", "const float* b", "float* a", "int count")
    planned = plan("", (odd,)).checked_plan
    assert planned.binding == f"bound by order: c = a, b = b, a = c, count = n; {SHAPE}"
    assert planned.at(SIZES).steps[0].arguments[:3] == (Pointer("a"), Pointer("b"), Pointer("c"))


def test_of_an_inferred_launch_it_is_told_that_it_has_one_block_where_it_has():
    kernel, problem = entry("s", "const float* x", "float* total", "int n"), problem_by_id("reduce_sum")
    planned = plan("", (kernel,), problem).checked_plan
    assert planned.binding == "x, total, n bound by name; 1 block of 256 threads"
    assert planned.at(SIZES).steps[0].grid == (1, 1, 1)


def test_a_pointer_to_const_is_no_output_in_order():
    odd = entry("add", "const float* x", "float* y", "const float* z", "int n")
    ruling = refused(plan("", (odd,)).ruling, "`const float* z` would be the output 'c'")
    assert "args=(a, c, b, n)" in ruling.hint
    assert "in place of" not in ruling.hint
    three = entry("add", "const float* x", "const float* y", "const float* z", "int n")
    ruling = refused(plan("", (three,)).ruling, "`const float* z` would be the output 'c'")
    assert "args=(x, y, z, n)" in ruling.hint
    assert "a number in place of x, y, z" in ruling.hint
    named = entry("add", "const float* c", "const float* b", "float* a", "int n")
    assert plan("", (named,)).checked_plan.binding == f"c, b, a, n bound by name; {SHAPE}"


def test_inference_refuses_what_does_not_fit():
    hint = refused(plan("", (entry("k", "float* p", "float* q"),)).ruling, "args=(p, q)").hint
    assert "vector_add, a temporary, or a number in place of p, q" in hint
    misfit = refused(plan("", (entry("k", "float* a", "int n", "float* c", "float* q"),)).ruling, "is a tensor")
    assert "// assay: launch k" in misfit.hint
    refused(plan("", (entry("k", "const float* a", "int n"),)).ruling, "writes the output c")


def test_no_kernel_and_two_kernels():
    refused(plan("", ()).ruling, "no `__global__` function in the source")
    refused(
        plan("template <typename T> __global__ void k(T*);", ()).ruling, "template __global__ void k<float>(float*);"
    )
    ruling = refused(plan("", (ADD, entry("k", "float* c"))).ruling, "2 kernels (add, k)")
    assert "// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)" in ruling.hint
    assert "// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(c)" in ruling.hint


def test_the_kernel_that_a_header_of_cub_brings_along_does_not_count():
    empty = entry("void cub::CUB_300001_SM_800::detail::EmptyKernel<void>()")
    assert plan("", (empty, ADD)).checked_plan.binding == f"a, b, c, n bound by name; {SHAPE}"
    refused(plan("", (ADD, empty, entry("k", "float* c"))).ruling, "2 kernels (add, k)")
    refused(plan("", (empty,)).ruling, "no `__global__` function in the source")


@pytest.mark.parametrize("entries", [(), (ADD,)])
def test_a_source_that_says_template_a_hundred_thousand_times_is_read_once(entries):
    source = "// assay: launch scale grid=(1) block=(1) args=(c)\n//" + "template <class T> " * 50_000
    began_s = time.process_time()
    refused(plan(source, entries).ruling, "kernel")
    assert time.process_time() - began_s < 2


@pytest.mark.parametrize(
    "comment",
    [
        "// launch: add grid=(4) block=(256)",
        "//launch add grid = (4)",
        "// @launch k args=(a, b)",
        "/// - launch: block=(1)",
    ],
)
def test_a_comment_that_was_meant_to_launch_is_named(comment):
    told = f"Line 2, `{comment}`, is a comment and launches nothing: a directive begins with `// assay: launch`"
    assert plan(f"int x;\n{comment}\n").checked_plan.binding == f"a, b, c, n bound by name; {SHAPE}. {told}"
    two = refused(plan(f"\n{comment}", (ADD, entry("k", "float* c"))).ruling, "2 kernels (add, k)")
    assert two.hint.startswith(f"{told}. Add a line for each launch")
    assert plan(f"{LINE}{comment}\n").checked_plan.binding == plan().checked_plan.binding


@pytest.mark.parametrize(
    "source", ["// we launch one thread each", '"// launch grid=(1)"', "/* launch grid=(1) */", "a"]
)
def test_other_comments_are_left_alone(source):
    assert plan(source).checked_plan.binding == f"a, b, c, n bound by name; {SHAPE}"


KERNELS = (
    entry("k", "float* x", symbol="k"),
    entry("ns::k(float*)", "float* x"),
    entry("void ns::scale<float, 4>(float const*, float*, long long, float)", "float* x"),
    entry("void ns::scale<float, 8u>(float const*, float*, long long, float)", "float* x"),
    entry("f(unsigned int*, int)", "float* x"),
    entry("f(float const*, float* const*, long)", "float* x"),
    entry("(anonymous namespace)::hidden(__half*)", "float* x"),
    entry("void flag<true, unsigned long>(float4)", "float* x"),
    entry("void map<&(relu(float))>(float*)", "float* x"),
    entry("void map<&(ns::gelu(float))>(float*)", "float* x"),
)


@pytest.mark.parametrize(
    ("name", "indexes"),
    [
        ("k", [0]),
        ("ns::k", [1]),
        ("ns :: k", [1]),
        ("::ns::k(float *)", [1]),
        ("k(float*)", [0]),
        ("scale", [2, 3]),
        ("ns::scale", [2, 3]),
        ("scale<float,4>", [2]),
        ("ns::scale< float , 8 >", [3]),
        ("scale<float, 8u>", [3]),
        ("scale<double, 4>", []),
        ("scale<float>", []),
        ("void ns::scale<float, 4>(const float*, float* __restrict__, long long int, const float)", [2]),
        ("scale<float, 4>(float*, float*, long long, float)", []),
        ("map<&relu>", [8]),
        ("map<relu>", [8]),
        ("map<ns::gelu>", [9]),
        ("map<&(relu(float))>", [8]),
        ("map<tanh>", []),
        ("f", [4, 5]),
        ("f(unsigned*, int)", [4]),
        ("f(const float *, float *const *, long int)", [5]),
        ("f(float*, float**, long)", []),
        ("f()", []),
        ("hidden", [6]),
        ("hidden(half*)", [6]),
        ("flag<true, size_t>", [7]),
        ("flag<(bool)1, unsigned long int>", [7]),
        ("flag<false, size_t>", []),
        ("other::k", []),
        ("s::k", []),
        ("K", []),
        ("", []),
        ("<>()", []),
        (">)(", []),
    ],
)
def test_kernels_are_found_by_name_after_demangling(name, indexes):
    assert [KERNELS.index(found) for found in matching(name, KERNELS)] == indexes


def test_the_shortest_name_means_one_kernel():
    assert [shortest(kernel, KERNELS) for kernel in KERNELS] == [
        "k", "ns::k", "scale<float, 4>", "scale<float, 8>", "f(unsigned int*, int)",
        "f(float const*, float* const*, long)", "hidden", "flag", "map<relu>", "map<ns::gelu>",
    ]  # fmt: skip


def test_unknown_and_ambiguous_kernels_are_explained():
    refused(plan(LINE.replace("add", "ad")).ruling, "Did you mean add?")
    two = (entry("f(int)", "float* c"), entry("f(float)", "float* c"))
    refused(plan("// assay: launch f grid=(1) block=(1) args=(c)", two).ruling, "Write one of: f(int); f(float).")
    source = "template <class T> __global__ void scale(T* x) {}\n// assay: launch scale grid=(1) block=(1) args=(c)"
    refused(plan(source).ruling, "template __global__ void scale<float>(float* x);")


@pytest.mark.parametrize(
    ("args", "declarations", "reason"),
    [
        ("a, b, c", None, "args has 3 values"),
        ("a, b, c, n, n", None, "args has 5 values"),
        ("a, b, n, n", None, "a pointer takes a tensor"),
        ("a, b, c, a", None, "'a' is a tensor, and the parameter takes a number"),
        ("a, b, c, a + 1", None, "'a' is a tensor, and an expression can only compute with sizes"),
        ("a, b, c, m", None, "unknown name 'm'"),
        ("a, b, c, 0.5", None, "takes an integer"),
        ("a, b, c, 4294967296", None, "does not fit in int32 (-2^31 to 2^31 - 1)"),
        ("a, b, 1, n", None, "or 0 for null"),
        ("a, b, 0, n", None, "No step of the launch plan writes the output c"),
        ("c, 1", ("float* c", "Params p"), "a struct (24 bytes) cannot be given"),
        ("c, -1", ("float* c", "unsigned int p"), "does not fit in uint32"),
        ("c, c", ("float* c", "float** p"), "pointer to pointers"),
        ("c", ("double* c",), "`double` is not the type of a float32 tensor"),
        ("c", ("long long* c",), "`long long` has 8 bytes"),
        ("a", ("const float* a",), "No step of the launch plan writes the output c"),
    ],
)
def test_arguments_must_fit_their_parameters(args, declarations, reason):
    kernel = entry("add", *declarations) if declarations else ADD
    refused(plan(f"// assay: launch add grid=(1) block=(1) args=({args})", (kernel,)).ruling, reason)


@pytest.mark.parametrize("source", ["// assay: launch add grid=(1) block=(1) args=(a, b, c, n)", ""])
def test_a_pointer_of_another_type_is_told_which_to_be_and_never_the_line_that_failed(source):
    kernel = entry("add", "const float* a", "const double* b", "float* c", "int n")
    ruling = plan(source, (kernel,)).ruling
    assert "`double` is not the type of a float32 tensor" in ruling.message
    assert "`const float*`" in ruling.hint
    assert "launch add" not in ruling.hint


def test_numbers_are_passed_as_the_kernel_declares_them():
    kernel = entry("k", "float* out", "float f", "double d", "float i", "long long l", "unsigned long u", "short s",
                   "float h", "unsigned char b", "__half g")  # fmt: skip
    source = "// assay: launch k grid=(1) block=(1) args=(out, alpha, alpha, n, -n, n * 4294967296, -7, .5, 255, 1.5)"
    problem = replace(SAXPY, scalars=(Scalar("alpha", 0.1),))
    (launch,) = at(source, {"n": 3}, entries=(kernel,), problem=problem).steps
    tenth = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert b"".join(launch.arguments[1:]) == struct.pack("<fdfqQhfBe", 0.1, tenth, 3, -3, 3 << 32, -7, 0.5, 255, 1.5)


def test_integer_scalars_can_be_computed_with_and_float_scalars_cannot():
    source = "// assay: launch k grid=(groups * 2) block=(1) args=(out, groups + 1)"
    kernel = entry("k", "float* out", "int g")
    whole = replace(SAXPY, scalars=(Scalar("groups", 3, DType.INT32),))
    (launch,) = at(source, entries=(kernel,), problem=whole).steps
    assert (launch.grid, launch.arguments[1]) == ((6, 1, 1), struct.pack("<i", 4))
    broken = replace(SAXPY, scalars=(Scalar("groups", 3.0),))
    refused(plan(source, (kernel,), broken).ruling, "'groups' is not an integer")


@pytest.mark.parametrize(
    ("sizes", "line", "reason"),
    [
        ({"n": 65536}, LINE.replace("b, c, n)", "b, c, n * n)"), "4294967296 does not fit in int32"),
        ({"n": 7}, LINE.replace("ceil_div(n, 256)", "n // 256"), "Use ceil_div"),
        ({"n": 7}, LINE.replace("ceil_div(n, 256)", "n - 8"), "x must be 1 to 2147483647, and it is -1 (at n = 7)"),
        ({"n": 7}, LINE.replace("ceil_div(n, 256)", "1 // (n - 7)"), "division by zero (at n = 7)"),
        ({"n": 7}, LINE.replace("ceil_div(n, 256)", "2147483648"), "x must be 1 to 2147483647"),
        ({"n": 7}, LINE.replace("ceil_div(n, 256)", "1, 65536"), "y must be 1 to 65535"),
        ({"n": 7}, LINE.replace("ceil_div(n, 256)", "1, 65536"), "Put the extent that grows into x"),
        ({"n": 7}, LINE.replace("ceil_div(n, 256)", "1, 1, 65536"), "z must be 1 to 65535"),
        ({"n": 7}, LINE.replace("(256)", "(1025)"), "x must be 1 to 1024"),
        ({"n": 7}, LINE.replace("(256)", "(1, 1, 65)"), "z must be 1 to 64"),
        ({"n": 7}, LINE.replace("(256)", "(0)"), "x must be 1 to 1024"),
        ({"n": 7}, LINE.replace("(256)", "(32, 33)"), "at most 1024 threads, and this one 1056"),
        ({"n": 7}, LINE.replace("(256)", "(32, 33)"), "use more blocks"),
        ({"n": 1025}, LINE.replace("(256)", "(n)"), "let each thread do several elements"),
        ({"n": 7}, LINE.replace("block", "shared=163 * 1024 + 1 block"), "sm_80 has 166912"),
        ({"n": 7}, LINE.replace("block", "shared=163 * 1024 + 1 block"), "sm_90 has 232448 (`--arch sm_90`)"),
        ({"n": 7}, LINE.replace("block", "shared=n - 8 block"), "-1 bytes of dynamic shared memory"),
        ({"n": 1 << 31}, LINE, "The problem's own tensors take 24 GiB at n = 2147483648"),
        ({"n": 7}, "// assay: temp t float64 (n - 7)\n" + LINE, "an extent must be positive, and it is 0"),
        ({"n": 1 << 20}, "// assay: temp t int8 (n, n, 1024)\n" + LINE, "The temporaries take 1 PiB at n = 1048576"),
        ({"n": 9}, "// assay: temp t int8 (4000000000, 4000000000)\n" + LINE, "13.88 EiB"),
        ({"n": 9}, "// assay: temp t int8 (n)\n// assay: copy a t\n" + LINE, "'a' has 36 bytes and 't' 9"),
    ],
)
def test_numbers_out_of_range_are_refused_with_the_size(sizes, line, reason):
    ruling = refused(at(line, sizes), reason)
    assert f"at n = {sizes['n']}" in ruling.message


def test_the_largest_numbers_that_the_hardware_takes():
    line = LINE.replace("ceil_div(n, 256)", "2147483647, 65535, 65535").replace("(256)", "(4, 4, 64)")
    (launch,) = at(line.replace("block", "shared=163 * 1024 block")).steps
    assert (launch.grid, launch.block) == ((2147483647, 65535, 65535), (4, 4, 64))
    assert (launch.shared_bytes, launch.cooperative) == (166912, False)


def test_a_cooperative_launch_is_held_by_132_multiprocessors_at_once():
    line = LINE.replace("(256)", "(1024)").replace("block=", "shared=163 * 1024 cooperative block=")
    assert isinstance(at(line.replace("ceil_div(n, 256)", "132")), SizedPlan)
    assert not isinstance(at(line.replace("ceil_div(n, 256)", "133")), SizedPlan)


def test_static_and_dynamic_shared_memory_share_one_limit():
    line = LINE.replace("block", "shared=66912 block")
    assert isinstance(at(line, static_shared_bytes={ADD.name: 100000}), SizedPlan)
    refused(at(line, static_shared_bytes={ADD.name: 100001}), "beside 100001 static bytes")


def test_a_block_whose_registers_do_not_fit_is_refused():
    line = LINE.replace("(256)", "(1024)")
    assert isinstance(at(line, registers={ADD.name: 64}), SizedPlan)
    refused(at(line, registers={ADD.name: 65}), "for want of registers: it has 1024 threads of 65 registers")
    assert isinstance(at(LINE, registers={ADD.name: 255}), SizedPlan)


@pytest.mark.parametrize(
    ("arch", "kib"),
    [("sm_75", 64), ("sm_80", 163), ("sm_86", 99), ("sm_87", 163), ("sm_89", 99), ("sm_90", 227), ("sm_90a", 227),
     ("sm_100", 227), ("sm_103", 227), ("sm_110", 227), ("sm_120", 99), ("sm_121", 99),
     ("sm_60", 48), ("sm_70", 96), ("sm_101", 227)],
)  # fmt: skip
def test_shared_memory_by_architecture(arch, kib):
    assert limits_of(arch).shared_per_block_bytes == kib << 10
    exact = LINE.replace("block", f"shared={kib << 10} block")
    assert isinstance(at(exact, arch=arch), SizedPlan)
    assert isinstance(at(exact.replace("shared=", "shared=1 + "), arch=arch), Ruling)


def test_clusters_are_never_dropped_in_silence():
    def line(text):
        return LINE.replace("block", f"cluster={text} block").replace("ceil_div(n, 256)", "8, 2")

    assert at(line("(1, 1)")).steps[0].cluster is None
    assert at(line("(2)")).steps[0].cluster == (2, 1, 1)
    refused(at(line("(3)")), "grid x = 8 is not a multiple of 3")
    refused(at(line("(0)")), "x must be 1 to 16")
    refused(at(line("(16, 2)")), "at most 16 blocks")


def test_fills_and_copies():
    source = (
        "// assay: temp t float16 (n, 2)\n// assay: fill t value=0.5\n// assay: fill c value=-1\n"
        "// assay: copy a t\n// assay: copy t c\n"
    )
    sized_plan = at(source, {"n": 5})
    assert sized_plan.steps == (
        BufferFill("t", struct.pack("<e", 0.5)),
        BufferFill("c", struct.pack("<f", -1)),
        BufferCopy("a", "t"),
        BufferCopy("t", "c"),
    )
    assert (sized_plan.buffers[-1].role, sized_plan.buffers[-1].shape) == ("temporary", (5, 2))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("fill a value=0", "'a' is an input"),
        ("copy c a", "'a' is an input"),
        ("copy c c", "copied to itself"),
        ("fill d value=0", "no tensor or temporary named 'd'"),
        ("copy d c", "no tensor or temporary named 'd'"),
        ("fill n value=0", "no tensor or temporary named 'n'"),
        ("fill c value=1e39", "1e+39 is too large for float32"),
        ("temp a float32 (1)", "The temporary 'a' has the name"),
        ("temp n float32 (1)", "The temporary 'n' has the name"),
        ("temp t float32 (m)", "unknown name 'm'"),
        ("launch add grid=(a) block=(1) args=(a, b, c, n)", "'a' is a tensor"),
        ("launch add grid=(1) block=(m) args=(a, b, c, n)", "unknown name 'm'"),
        ("launch add grid=(1) block=(1) shared=m args=(a, b, c, n)", "unknown name 'm'"),
        ("launch add grid=(N) block=(1) args=(a, b, c, n)", "did you mean 'n'?"),
        ("launch add grid=(1) block=(1) cluster=(m) args=(a, b, c, n)", "unknown name 'm'"),
        ("launch add grid=(1) block=(1) args=(a, b, c)", "step 2 (launch add)"),
    ],
)
def test_steps_that_no_size_can_mend(line, reason):
    refused(plan(f"{LINE}// assay: {line}\n").ruling, reason)


def test_the_caret_stands_under_the_unknown_name():
    message = plan(LINE.replace("ceil_div(n, 256)", "mm + ceil_div(m, 256)")).ruling.message
    quoted, under = message.split("\n")[1:]
    assert quoted[under.index("^") :].startswith("mm +")


def test_an_output_counts_as_written_only_as_a_target():
    two = replace(VECTOR_ADD, outputs=(Tensor("c", ("n",)), Tensor("d", ("n", "2"))))
    refused(plan(problem=two).ruling, "writes the output d")
    refused(plan(LINE + "// assay: temp t float64 (n)\n// assay: copy d t\n", problem=two).ruling, "the output d")
    assert plan(LINE + "// assay: fill d value=0\n", problem=two).checked_plan is not None


def test_inference_launches_over_the_largest_output():
    two = replace(VECTOR_ADD, outputs=(Tensor("c", ("n",)), Tensor("d", ("n + 1", "2"))))
    kernel = entry("k", "float* c", "float* d", "int n")
    assert at("", {"n": 1000}, entries=(kernel,), problem=two).steps[0].grid == (8, 1, 1)


def test_a_plan_says_how_it_binds():
    kernel = entry("add", "float* x", "float* y", "float* out", "int n")
    assert plan(LINE, (kernel,)).checked_plan.binding == "as the plan says: add(x = a, y = b, out = c, n)"


@pytest.mark.parametrize(
    ("pointee", "good", "bad"),
    [
        ("float", "float32", "float64 float16 bfloat16 int32 uint32"),
        ("float4", "float32 float16 bfloat16", "int32 float64"),
        ("double2", "float64 float32", "int64"),
        ("__half", "float16", "bfloat16 float32 uint16"),
        ("__half2", "float16", "bfloat16 float32"),
        ("half2", "float16", "float32"),
        ("__nv_bfloat162", "bfloat16", "float16"),
        ("unsigned", "uint32 int32 float32", "float16 float64 uint8"),
        ("unsigned int", "uint32 int32 float32", "int64"),
        ("int", "uint32 int32 float32", "int64 int16"),
        ("long long unsigned int", "uint64 int64 float64", "uint32"),
        ("unsigned short", "float16 bfloat16 int16", "float32"),
        ("uint4", "float16 float32 int8 float64", ""),
        ("void", "float16 int64 float64 int8", ""),
        ("unsigned char", "float32 int8", ""),
        ("char", "float32 int8", ""),
        ("const volatile float", "float32", "int32"),
        ("MyVector", "float16 int64", ""),
    ],
)
def test_what_a_pointer_may_show(pointee, good, bad):
    assert [pointer_misfit(pointee, DType(dtype)) for dtype in good.split()] == [None] * len(good.split())
    assert all(pointer_misfit(pointee, DType(dtype)) for dtype in bad.split())


@pytest.mark.parametrize(
    ("value", "dtype", "encoded"),
    [(1.0, "bfloat16", b"\x80\x3f"), (1.00390625, "bfloat16", b"\x80\x3f"), (1.01171875, "bfloat16", b"\x82\x3f"),
     (-2, "bfloat16", b"\x00\xc0"), (255, "uint8", b"\xff"), (-128, "int8", b"\x80"),
     (65504, "float16", b"\xff\x7b")],
)  # fmt: skip
def test_numbers_as_bytes(value, dtype, encoded):
    assert pack(value, DType(dtype)) == encoded


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(256, "uint8"), (-1, "uint64"), (128, "int8"), (1.0, "int32"), (65520.0, "float16"), (3.4e38, "bfloat16"),
     (1e39, "float32"), ((1 << 2000), "float64"), (1 << 64, "int64")],
)  # fmt: skip
def test_numbers_that_have_no_place(value, dtype):
    with pytest.raises(ArgumentError):
        pack(value, DType(dtype))
    json_plan = LaunchPlan(steps=(Fill(target="c", value=value),))
    tensor = replace(VECTOR_ADD, outputs=(Tensor("c", ("n",), DType(dtype)),))
    refused(plan("", json_plan=json_plan, problem=tensor).ruling, "step 1 (fill c)")


def test_every_starter_fits_its_problem():
    for problem in (VECTOR_ADD, SAXPY, problem_by_id("matmul"), problem_by_id("layer_norm")):
        tensors = [f"const float* {t.name}" for t in problem.inputs] + [f"float* {t.name}" for t in problem.outputs]
        numbers = [f"float {s.name}" for s in problem.scalars] + [f"int {name}" for name in problem.sizes]
        kernel = entry(f"{problem.id}_kernel", *tensors, *numbers)
        for sizes in problem.example_sizes:
            assert isinstance(at(problem.face.starter, sizes, entries=(kernel,), problem=problem), SizedPlan)
