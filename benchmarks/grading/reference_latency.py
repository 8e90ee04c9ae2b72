"""How long a verdict takes for a problem of someone else that is known already: PyTorch is imported anew, or at hand.

The problem is one in KernelBench's form (`tests/evaluator/foreign/references/relu.py`, 16 x 1000 elements), whose
calibration is in the cache, as for everyone but its first caller; so is the compiled kernel. *Alone*: the reference
process starts for each verdict, as it did before there was a zygote. *At hand*: a zygote forks it. *Learning* is the
first use of a text, with a zygote at hand.
"""

import statistics
import tempfile
import time
from pathlib import Path

import torch

from benchmarks._support.record import save
from common.contract import Settings, Status, Submission
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.zygote import KEPT
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

_ALONE, _AT_HAND, _LEARNED = 5, 15, 3
_FOLDER = Path(__file__).parents[2] / "tests" / "evaluator" / "foreign" / "references"


def _seconds(toolbox: Toolbox, text: bytes, source: str, verification: str) -> float:
    begun_s = time.perf_counter()
    with foreign_problem(text, "relu.py", toolbox.sandbox, toolbox.cache) as problem:
        settings = Settings.model_validate({"verification": verification})
        submission = Submission(problem=problem.id, source=source, backend="sim", settings=settings)
        verdict = evaluate(submission, toolbox, problem=problem)
    took_s = time.perf_counter() - begun_s
    assert verdict.status is Status.PASSED, verdict.message
    return took_s


def main() -> None:
    """Measure and save."""
    text, source = (_FOLDER / "relu.py").read_bytes(), (_FOLDER / "relu.cu").read_text()
    with tempfile.TemporaryDirectory() as folder:
        toolbox = Toolbox(MachineSettings(Path(folder)))
        toolbox.simulator.warm_up()
        cold = _seconds(toolbox, text, source, "full")
        alone = []
        for _ in range(_ALONE):
            KEPT.end_all()
            alone.append(_seconds(toolbox, text, source, "full"))
        full = [_seconds(toolbox, text, source, "full") for _ in range(_AT_HAND)]
        quick = [_seconds(toolbox, text, source, "quick") for _ in range(_AT_HAND)]
        learned = [_seconds(toolbox, text + b"# %d\n" % at, source, "full") for at in range(_LEARNED)]
        KEPT.end_all()
    figures = {
        "first_of_all_s": cold,
        "alone_p50_s": statistics.median(alone),
        "at_hand_p50_s": statistics.median(full),
        "at_hand_p90_s": statistics.quantiles(full, n=10)[-1],
        "at_hand_quick_p50_s": statistics.median(quick),
        "learning_p50_s": statistics.median(learned),
    }
    goals = {"first_of_all_s": ("<=", 10.0), "at_hand_p50_s": ("<=", 2.0)}
    details = {"alone": _ALONE, "at_hand": _AT_HAND, "learned": _LEARNED}
    save("reference_latency", figures, goals, {"torch": torch.__version__}, details=details)


if __name__ == "__main__":
    main()
