import pytest

from common.wire import DType
from evaluator.backends.peaks import DevicePeaks
from evaluator.problems.catalogue import find_problem, problems
from evaluator.problems.problem import Work
from evaluator.stages.time.roofline import Roofline, precision_of

# Round numbers: 1000 bytes in a nanosecond, and 10, 20, 90, 180, 240, 480 operations in a picosecond.
ROUND = DevicePeaks("made up", 1000, 10, 20, 90, 180, 240, 480)


def limits(read, written, flops, precision=DType.FLOAT32, peaks=ROUND):
    roofline = Roofline(Work(read, written, flops), precision, peaks)
    return roofline.floor_us, roofline.sol_us


def test_memory_by_hand():
    # 3e6 bytes in and 1e6 out at 1e12 bytes a second: the floor counts what must be read, light all bytes.
    assert limits(3_000_000, 1_000_000, 1) == pytest.approx((3.0, 4.0))


@pytest.mark.parametrize(
    ("precision", "fastest", "honest"),
    [
        (DType.FLOAT32, 80, 20),  # three float16 halves at 240 are faster than three TF32 at 90 and the lanes at 20
        (DType.FLOAT16, 480, 240),
        (DType.BFLOAT16, 480, 180),
        (DType.FLOAT64, 480 / 14, 10),
        (DType.INT32, 480, 20),
    ],
)
def test_arithmetic_by_hand(precision, fastest, honest):
    assert limits(0, 0, 10**12, precision) == pytest.approx((1e6 / fastest, 1e6 / honest))


def test_a_device_without_tensor_cores_computes_in_its_lanes():
    old = DevicePeaks("made up", 100, 1, 8, 0, 0, 0, 0)
    for precision in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16):
        assert limits(0, 0, 8 * 10**6, precision, old) == pytest.approx((1.0, 1.0))


def test_the_reason_names_what_binds():
    assert "3,000,000 bytes of input" in Roofline(Work(3_000_000, 0, 1), DType.FLOAT32, ROUND).reason
    said = Roofline(Work(1, 0, 10**9), DType.FLOAT32, ROUND).reason
    for words in (
        "1,000,000,000 floating-point operations",
        "80 TFLOPS",
        "float32's precision",
        "12.5 us",
        "made up",
    ):
        assert words in said


def test_precisions_of_problems():
    assert precision_of(find_problem("matmul_f16")) is DType.FLOAT16
    assert precision_of(find_problem("matmul")) is DType.FLOAT32
    assert precision_of(find_problem("histogram")) is DType.INT8


@pytest.mark.parametrize("name", problems())
def test_no_problem_can_be_faster_than_its_floor(name):
    problem = find_problem(name)
    for sizes in problem.example_sizes:
        roofline = Roofline(problem.work(sizes), precision_of(problem), ROUND)
        assert 0 < roofline.floor_us <= roofline.sol_us
        assert roofline.bandwidth_share(roofline.sol_us) <= 1
