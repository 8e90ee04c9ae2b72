import subprocess

import numpy as np
import pytest

from common.launch_directives import parse_directives
from common.launch_plan import Launch
from evaluator.errors import UnknownProblemError
from evaluator.problems.catalogue import find_problem, problems
from evaluator.problems.linter import lint
from evaluator.stages.compile.toolchain import find_toolchain

# Tier, id, then inputs, outputs, scalars and sizes in the order in which an inferred plan binds them.
TABLE = """
0 vector_add       a[n] b[n] c[n] n
0 scalar_multiply  x[n] y[n] alpha n
0 saxpy            x[n] y[n] out[n] alpha n
0 relu             x[n] y[n] n
0 gelu             x[n] y[n] n
1 reduce_sum       x[n] total[1] n
1 row_sum          x[rows,cols] y[rows] rows cols
1 transpose        x[rows,cols] y[cols,rows] rows cols
1 prefix_sum       x[n] y[n] n
1 histogram        values[n] counts[256] n
2 matvec           a[m,k] x[k] y[m] m k
2 matmul           a[m,k] b[k,n] c[m,n] m n k
2 softmax          x[rows,cols] y[rows,cols] rows cols
2 layer_norm       x[rows,cols] weight[cols] bias[cols] y[rows,cols] eps rows cols
2 rms_norm         x[rows,cols] weight[cols] y[rows,cols] eps rows cols
2 conv2d           x[batch,in_channels,height,width] weight[out_channels,in_channels,3,3] y[batch,out_channels,height,width] batch in_channels out_channels height width
3 linear_gelu      x[m,k] weight[n,k] bias[n] y[m,n] m n k
3 swiglu           gate[rows,cols] up[rows,cols] y[rows,cols] rows cols
3 attention        q[heads,seq,dim] k[heads,seq,dim] v[heads,seq,dim] o[heads,seq,dim] heads seq dim
3 matmul_f16       a[m,k] b[k,n] c[m,n] m n k
"""  # noqa: E501
IDS = [line.split()[1] for line in TABLE.strip().splitlines()]
OTHER_DTYPES = {"histogram": {"int32"}, "matmul_f16": {"float16"}}


def test_the_catalogue_is_the_table_in_its_order():
    lines = []
    for problem in problems().values():
        tensors = (*problem.inputs, *problem.outputs)
        shapes = {tensor.name: f"{tensor.name}[{','.join(tensor.shape)}]" for tensor in tensors}
        lines.append([str(problem.tier), problem.id, *(shapes.get(name, name) for name in problem.parameter_names)])
    assert lines == [line.split() for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize("problem_id", IDS)
def test_problem_is_complete_and_clean(problem_id):
    problem = find_problem(problem_id)
    assert {t.dtype.value for t in (*problem.inputs, *problem.outputs)} == OTHER_DTYPES.get(problem_id, {"float32"})
    assert lint(problem) == ()
    assert lint(problem, seed=20_261_121) == ()
    face = problem.face
    assert face.id == problem_id
    assert len(face.statement) > 60
    assert len(face.tolerance) > 60
    assert face.distributions
    assert face.probes
    assert type(face).model_validate_json(face.model_dump_json()) == face


@pytest.mark.parametrize("problem_id", IDS)
def test_scalars_are_float32_values(problem_id):
    for scalar in find_problem(problem_id).scalars:
        assert np.float32(scalar.value) == pytest.approx(scalar.value, rel=1e-7)


@pytest.mark.parametrize("problem_id", IDS)
def test_the_least_work_moves_every_tensor_once(problem_id):
    problem = find_problem(problem_id)
    for sizes in problem.example_sizes:
        work = problem.work(sizes)
        count = {
            t.name: int(np.prod(t.shape_at(sizes))) * t.dtype.size_bytes for t in (*problem.inputs, *problem.outputs)
        }
        assert work.read_bytes == sum(count[tensor.name] for tensor in problem.inputs)
        assert work.written_bytes == sum(count[tensor.name] for tensor in problem.outputs)
        assert work.flops >= 0


@pytest.mark.parametrize("problem_id", IDS)
def test_one_evaluation_moves_little_data(problem_id):
    """Inputs and outputs travel through a pipe to the simulator: a trial stays within 4 million elements."""
    problem = find_problem(problem_id)
    for seed in range(5):
        hidden = problem.hidden_sizes(np.random.default_rng(seed))
        assert 1 <= len(hidden) <= 12
        for sizes in (*problem.example_sizes, *hidden, *(probe.sizes for probe in problem.probes)):
            assert sum(np.prod(t.shape_at(sizes)) for t in (*problem.inputs, *problem.outputs)) <= 4_000_000


def test_vector_add_starts_without_a_directive():
    source = find_problem("vector_add").naive.source
    assert "assay:" not in source
    assert source.startswith("__global__ void add_kernel(const float* a, const float* b, float* c, int n)")


def test_find_names_the_nearest():
    assert find_problem("saxpy").id == "saxpy"
    with pytest.raises(UnknownProblemError, match="no problem 'matmull'") as raised:
        find_problem("matmull")
    assert "'matmul'" in raised.value.remedy
    with pytest.raises(UnknownProblemError) as raised:
        find_problem("Vector Add")
    assert "'vector_add'" in raised.value.remedy
    with pytest.raises(UnknownProblemError) as raised:
        find_problem("qqqqqqqq")
    assert all(known in raised.value.remedy for known in IDS)


def test_the_catalogue_cannot_be_changed():
    with pytest.raises(TypeError):
        problems()["mine"] = find_problem("relu")
    assert problems() is problems()


@pytest.mark.parametrize("which", ["naive", "fast", "starter"])
@pytest.mark.parametrize("problem_id", IDS)
def test_kernels_compile(problem_id, which, tmp_path):
    problem = find_problem(problem_id)
    source = problem.face.starter if which == "starter" else getattr(problem, which).source
    (tmp_path / "kernel.cu").write_text(source)
    options = ("-ptx", "-std=c++17", "-O3", "-lineinfo", "-arch=sm_80", "-o", "kernel.ptx")
    compiled = subprocess.run(
        [find_toolchain().nvcc, *options, "kernel.cu"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr
    assert "error" not in compiled.stderr
    if which != "starter":
        assert "warning" not in compiled.stderr, compiled.stderr
    ptx = (tmp_path / "kernel.ptx").read_text()
    assert ".entry" in ptx
    plan = parse_directives(source)
    for step in plan.steps if plan else ():
        if isinstance(step, Launch):
            assert step.kernel.split("<")[0] in ptx
