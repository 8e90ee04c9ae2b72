"""Host functions as LeetGPU and Tensara have them, for problems in their own forms."""

from pathlib import Path

import pytest

from assay import Reference, Settings, Status, grade

REFERENCES = Path(__file__).parent / "references"
IN_PLACE = """
import ctypes

import torch
from core.challenge_base import ChallengeBase


class Challenge(ChallengeBase):
    name = "Scaled in place"

    def reference_impl(self, data, scratch, factor, N):
        data.copy_(torch.relu(data) * factor)

    def get_solve_signature(self):
        return {
            "data": (ctypes.POINTER(ctypes.c_float), "inout"),
            "factor": (ctypes.c_float, "in"),
            "N": (ctypes.c_int, "in"),
        }

    def generate_performance_test(self):
        N = 5000
        return {
            "data": torch.empty(N, device="cuda", dtype=torch.float32).uniform_(-2.0, 2.0),
            "factor": 3,
            "N": N,
        }
""".replace("data, scratch, factor, N", "data, factor, N")
SOLVE_IN_PLACE = """
__global__ void scale(float* data, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = data[i] > 0.0f ? data[i] * factor : 0.0f;
}

extern "C" void solve(float* values, float by, int count) { scale<<<(count + 255) / 256, 256>>>(values, by, count); }
"""
QUICK = Settings(estimate_for=None, verification="quick", other_sizes="required")


@pytest.mark.parametrize(
    ("file", "reference", "wrong"),
    [
        ("leetgpu/gains_solve.cu", "leetgpu/challenge.py", ("factor * sum", "sum")),
        ("leetgpu/gains_triton.py", "leetgpu/challenge.py", ("factor * tl.sum", "tl.sum")),
        ("tensara/damped_solution.cu", "tensara/def.py", ("m, v, d, out", "m, v, 1.0f, out")),
    ],
    ids=["leetgpu", "leetgpu_triton", "tensara"],
)
def test_a_solution_gets_what_the_form_says(file, reference, wrong):
    source = (REFERENCES / file).read_text()
    right = grade(source, REFERENCES / reference, "sim", settings=QUICK)
    assert right.status == "passed", right.message
    assert "as the problem states it" in right.compile.lifting.binding
    assert wrong[0] in source
    assert grade(source.replace(*wrong), REFERENCES / reference, "sim", settings=QUICK).status == "incorrect"


def test_what_is_read_and_written_has_the_inputs_contents_at_first():
    reference = Reference(text=IN_PLACE, name="challenge.py")
    verdict = grade(SOLVE_IN_PLACE, reference, "sim", settings=QUICK)
    assert verdict.status == "passed", verdict.message
    assert (verdict.compile.lifting.launches, verdict.compile.lifting.copies) == (1, 1)
    wrong = grade(SOLVE_IN_PLACE.replace("* factor", "* 2.0f"), reference, "sim", settings=QUICK)
    assert wrong.status == "incorrect"


SHAPED = """
import torch
from problem import Problem


class row_sums(Problem):
    parameters = [
        {"name": "values", "type": "float", "pointer": True, "const": True},
        {"name": "sums", "type": "float", "pointer": True, "const": False},
        {"name": "shape", "type": "size_t", "pointer": True, "const": True},
        {"name": "ndim", "type": "size_t", "pointer": False, "const": False},
    ]

    def __init__(self):
        super().__init__(name="row-sums")

    def reference_solution(self, values):
        return values.sum(1)

    def generate_test_cases(self):
        return [
            {"shape": (rows, cols), "create_inputs": lambda rows=rows, cols=cols: (torch.rand(rows, cols),)}
            for rows, cols in [(48, 96), (64, 32)]
        ]

    def get_extra_params(self, test_case):
        return [torch.tensor(list(test_case["shape"]), dtype=torch.int64, device="cuda"), len(test_case["shape"])]
"""
SHAPE_TAKEN = """
__global__ void add_rows(const float* values, float* sums, const size_t* shape, size_t rows)
{
    size_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (size_t i = 0; i < shape[1]; i++) sum += values[row * shape[1] + i];
    sums[row] = sum;
}

extern "C" void solution(const float* values, float* sums, const size_t* shape, size_t ndim)
{
    size_t extents[8];
    cudaMemcpy(extents, shape, ndim * sizeof(size_t), cudaMemcpyDeviceToHost);
    add_rows<<<(extents[0] + 63) / 64, 64>>>(values, sums, shape, extents[0]);
}
"""


def test_the_shape_of_an_input_is_an_array_on_the_device_whose_contents_the_host_may_copy():
    reference = Reference(text=SHAPED, name="def.py")
    right = grade(SHAPE_TAKEN, reference, "sim", settings=QUICK)
    assert right.status == "passed", right.message
    assert (right.compile.lifting.launches, right.compile.lifting.fills) == (1, 1), "the kernel gets what it holds"
    assert len({tuple(trial.sizes.items()) for trial in right.correctness.trials}) > 1
    wrong = grade(SHAPE_TAKEN.replace("i < shape[1]", "i < shape[0]"), reference, "sim", settings=QUICK)
    assert wrong.status == "incorrect"


COUNTED = """
import ctypes

import torch
from core.challenge_base import ChallengeBase


class Challenge(ChallengeBase):
    name = "How many are positive"

    def reference_impl(self, data, many, N):
        many[0] = (data > 0).sum()

    def get_solve_signature(self):
        return {
            "data": (ctypes.POINTER(ctypes.c_float), "in"),
            "many": (ctypes.POINTER(ctypes.c_int), "out"),
            "N": (ctypes.c_int, "in"),
        }

    def generate_example_test(self):
        return {"data": torch.ones(3), "many": torch.empty(1, dtype=torch.int32), "N": 3}

    def generate_performance_test(self):
        N = 5000
        many = torch.zeros(1, device="cuda", dtype=torch.int32)
        return {"data": torch.empty(N, device="cuda").uniform_(-2.0, 2.0), "many": many, "N": N}
"""
SOLVE_COUNTED = """
__global__ void count(const float* data, int* many, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && data[i] > 0.0f) atomicAdd(many, 1);
}

extern "C" void solve(const float* data, int* many, int n) { count<<<(n + 255) / 256, 256>>>(data, many, n); }
"""


@pytest.mark.parametrize(
    ("stated", "status"),
    [("torch.zeros", Status.PASSED), ("torch.empty", Status.INCORRECT)],
    ids=["zeros", "anything"],
)
def test_an_output_holds_zeros_at_first_where_the_performance_test_makes_it_so(stated, status):
    text = COUNTED.replace("torch.zeros", stated)
    verdict = grade(SOLVE_COUNTED, Reference(name="challenge.py", text=text), "sim", settings=QUICK)
    assert verdict.status is status, verdict.message
    assert verdict.compile.lifting.launches == 1


def test_tensaras_outputs_hold_zeros_at_first():
    source = (REFERENCES / "tensara/damped_solution.cu").read_text()
    source = source.replace("sum += matrix", "result[row] += damping * matrix").replace(
        "result[row] = damping * sum;", ""
    )
    verdict = grade(source, REFERENCES / "tensara/def.py", "sim", settings=QUICK)
    assert verdict.status == "passed", verdict.message
    assert (verdict.compile.lifting.launches, verdict.compile.lifting.fills) == (1, 1)
