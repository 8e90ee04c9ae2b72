import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from common.contract import (
    MAX_REFERENCE_BYTES,
    Compilation,
    Correctness,
    DeviceState,
    Evaluation,
    Phase,
    Reference,
    Reward,
    RewardName,
    Screening,
    Settings,
    Status,
    Submission,
    Timing,
    Verdict,
    name_of_file,
    sendable_name,
)
from common.contract.counters import Counts, SharedTraffic, Traffic
from common.wire import DType

GOOD_COMPILATION = Compilation(succeeded=True, screening=Screening())
BAD_COMPILATION = Compilation(succeeded=False, screening=Screening())
CORRECT = Correctness(passed=True, trials=(), planned_trials=1)
WRONG = Correctness(passed=False, trials=(), planned_trials=1)
REWARD = Reward(name=RewardName.WEIGHTED, version=1, value=0.3, maximum=1.4, terms=())
TIMING = Timing(
    latency_us=1, baseline_us=2, speedup=2, speedup_low=1.9, speedup_high=2.1, confidence=0.95,
    speedup_stderr=0.05, compared_with="PyTorch 2.11.0 eager: torch.relu(x)", sizes={"n": 1}, launches=10, host_us=9,
    referee_us=200, device=DeviceState(name="NVIDIA H200"),
)  # fmt: skip

GOOD = {
    Status.PASSED: {"phase": Phase.VERIFY, "compile": GOOD_COMPILATION, "correctness": CORRECT},
    Status.INCORRECT: {"phase": Phase.VERIFY, "compile": GOOD_COMPILATION, "correctness": WRONG},
    Status.COMPILE_ERROR: {"phase": Phase.COMPILE, "compile": BAD_COMPILATION},
    Status.RUNTIME_ERROR: {"phase": Phase.VERIFY, "compile": GOOD_COMPILATION, "correctness": WRONG},
    Status.TIMEOUT: {"phase": Phase.VERIFY, "compile": GOOD_COMPILATION},
    Status.OUT_OF_MEMORY: {"phase": Phase.VERIFY, "compile": GOOD_COMPILATION},
    Status.INVALID_SUBMISSION: {"phase": Phase.LAUNCH, "compile": GOOD_COMPILATION},
    Status.REJECTED: {"phase": Phase.TIME, "compile": GOOD_COMPILATION, "correctness": CORRECT},
    Status.UNSUPPORTED: {"phase": Phase.LAUNCH, "compile": GOOD_COMPILATION},
    Status.CANCELLED: {"phase": Phase.VERIFY},
    Status.INTERNAL_ERROR: {"phase": Phase.VERIFY},
}


def verdict(status, **changes):
    fields = {
        "message": "what happened", "hint": None, "backend": "gpu", "problem": "vector_add", "compile": None,
        "correctness": None, "timing": None, "profile": None, "receipt": None,
        "reward": REWARD if status.carries_reward else None,
    }  # fmt: skip
    return Verdict(status=status, **{**fields, **GOOD[status], **changes})


@pytest.mark.parametrize("status", Status)
def test_each_status_has_a_verdict_that_survives_the_wire(status):
    made = verdict(status)
    assert Verdict.model_validate_json(made.model_dump_json()) == made


UNREWARDED = (Status.UNSUPPORTED, Status.CANCELLED, Status.INTERNAL_ERROR)


@pytest.mark.parametrize(
    ("status", "changes", "reason"),
    [
        (Status.PASSED, {"compile": None}, "needs a compilation that succeeded"),
        (Status.PASSED, {"compile": BAD_COMPILATION}, "needs a compilation that succeeded"),
        (Status.PASSED, {"correctness": None}, "a verification that passed"),
        (Status.PASSED, {"correctness": WRONG}, "a verification that passed"),
        (Status.PASSED, {"phase": Phase.COMPILE}, "cannot be decided in phase compile"),
        (Status.PASSED, {"timing": TIMING, "backend": "sim"}, "timing from the simulator"),
        (Status.INCORRECT, {"correctness": None}, "needs a verification that failed"),
        (Status.INCORRECT, {"correctness": CORRECT}, "needs a verification that failed"),
        (Status.INCORRECT, {"phase": Phase.LAUNCH}, "cannot be decided in phase launch"),
        (Status.INCORRECT, {"timing": TIMING}, "cannot carry timing"),
        (Status.COMPILE_ERROR, {"compile": None}, "needs a compilation that failed"),
        (Status.COMPILE_ERROR, {"compile": GOOD_COMPILATION}, "needs a compilation that failed"),
        (Status.COMPILE_ERROR, {"correctness": WRONG}, "cannot carry correctness"),
        (Status.COMPILE_ERROR, {"phase": Phase.VERIFY}, "cannot be decided in phase verify"),
        (Status.RUNTIME_ERROR, {"phase": Phase.COMPILE, "correctness": None}, "cannot be decided in phase compile"),
        (Status.RUNTIME_ERROR, {"timing": TIMING}, "cannot carry timing"),
        (Status.TIMEOUT, {"phase": Phase.COMPILE, "correctness": WRONG}, "cannot carry correctness from phase"),
        (Status.TIMEOUT, {"timing": TIMING}, "cannot carry timing"),
        (Status.OUT_OF_MEMORY, {"timing": TIMING}, "cannot carry timing"),
        (Status.INVALID_SUBMISSION, {"phase": Phase.VERIFY}, "cannot be decided in phase verify"),
        (Status.INVALID_SUBMISSION, {"timing": TIMING}, "cannot carry timing"),
        (Status.REJECTED, {"phase": Phase.SCREEN}, "cannot carry correctness from phase screen"),
        (Status.REJECTED, {"timing": TIMING, "backend": "sim"}, "timing from the simulator"),
        *((status, {"reward": REWARD}, "cannot carry a reward") for status in UNREWARDED),
        *((status, {"reward": None}, "needs a reward") for status in Status if status not in UNREWARDED),
    ],
)
def test_a_verdict_that_contradicts_its_status_is_refused(status, changes, reason):
    with pytest.raises(ValidationError, match=reason):
        verdict(status, **changes)


def test_timing_belongs_to_a_gpu_verdict_that_passed_or_was_rejected():
    for status in (Status.PASSED, Status.REJECTED):
        assert verdict(status, timing=TIMING).timing == TIMING


def test_an_evaluation_has_a_verdict_exactly_when_it_is_done():
    fields = {"id": "e1", "submission": Submission(problem="relu", source=""), "created_at": "2026-01-01T00:00:00Z"}
    assert Evaluation(state="done", verdict=verdict(Status.PASSED), **fields).verdict is not None
    for state, held in (("done", None), ("queued", verdict(Status.PASSED)), ("running", verdict(Status.PASSED))):
        with pytest.raises(ValidationError, match="exactly when it is done"):
            Evaluation(state=state, verdict=held, **fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [("run_timeout_s", 31), ("compile_timeout_s", 0), ("memory_bytes", (8 << 30) + 1), ("arch", "native"),
     ("target_speedup", 0), ("flags", ("-g",) * 17), ("max_launches", 201),
     ("max_launches", 9), ("colour", "red")],
)  # fmt: skip
def test_settings_only_lower_limits(field, value):
    with pytest.raises(ValidationError, match=field):
        Settings(**{field: value})


def test_messages_are_frozen_and_refuse_unknown_fields():
    submission = Submission(problem="relu", source="")
    with pytest.raises(ValidationError):
        submission.problem = "gelu"
    with pytest.raises(ValidationError, match="extra"):
        Submission(problem="relu", source="", extra=1)


def test_sizes_of_the_element_types():
    sizes = {dtype.value: dtype.size_bytes for dtype in DType}
    assert sizes == {
        "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "uint64": 8, "int32": 4, "uint32": 4,
        "int16": 2, "uint16": 2, "int8": 1, "uint8": 1,
    }  # fmt: skip
    assert {dtype for dtype in DType if dtype.is_float} == {"float64", "float32", "float16", "bfloat16"}


def test_sectors_are_those_of_global_and_local_memory():
    counts = Counts(loads=Traffic(sectors=4), stores=Traffic(sectors=2), local=Traffic(sectors=1))
    assert (counts.global_sectors, counts.sectors) == (6, 7)


def test_conflicts_are_passes_beyond_those_needed():
    assert Counts(shared=SharedTraffic(wavefronts=7, least_wavefronts=4)).conflict_wavefronts == 3
    # A profiler's estimate of what is needed may exceed what it counted.
    assert Counts(shared=SharedTraffic(wavefronts=3, least_wavefronts=4)).conflict_wavefronts == 0


@pytest.mark.parametrize("piece", ["\n", " ", "\n ", "\r", "import ", "\nfrom problem import"])
def test_the_form_of_any_text_is_seen_in_one_look(piece):
    text = (piece * MAX_REFERENCE_BYTES)[: MAX_REFERENCE_BYTES - 1] + "x"
    began_s = time.process_time()
    assert Reference(text=text).problem_id
    assert time.process_time() - began_s < 1


def test_the_folder_names_what_has_the_name_of_its_form(tmp_path):
    for name in ("challenge.py", "def.py", "definition.json"):
        assert name_of_file(tmp_path / "1_vector_add" / name) == f"1_vector_add.{name.rpartition('.')[2]}"
    assert name_of_file(tmp_path / "1_relu.py") == "1_relu.py"
    assert name_of_file(Path("/def.py")) == "def.py"
    for name in ("100_Hinge (1).py", "..py", "-x.py", "a" * 200 + ".py", "été.py", "("):
        assert Reference(name=sendable_name(name), text="x").problem_id
    assert sendable_name("100_Hinge (1).py") == "100_Hinge__1_.py"
