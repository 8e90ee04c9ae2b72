"""What the tests of the workers share: kernels, a database to fill, and a look at the processes of this machine."""

import os
import time
from pathlib import Path

import storage_samples

from common.contract import Settings, Submission

CACHE = Path(__file__).parents[3] / ".assay" / "tests" / "cache"
HEAD = "__global__ void relu(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
RIGHT = HEAD + "if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.0f; }\n"
WRONG = HEAD + "if (i < n) y[i] = x[i]; }\n"
ENDLESS = (Path(__file__).parents[2] / "takes_half_a_minute.cu").read_text()
"""What runs until somebody ends it, as far as these tests are concerned."""
SLOW = RIGHT.replace(
    "if (i < n)",
    "float v = n; for (int k = 0; i == 0 && k < 120000; k++) "
    'asm volatile("tanh.approx.f32 %0, %0;" : "+f"(v)); if (i < n)',
)
"""What passes, but not at once: a second of a processor that has nothing else to do."""


def data_dir(folder: Path) -> Path:
    """A data folder of one's own, but for the compiled programs, which all tests share."""
    folder.mkdir()
    CACHE.mkdir(parents=True, exist_ok=True)
    (folder / "cache").symlink_to(CACHE)
    return folder


def submission(source=RIGHT, problem="relu", backend="auto", **settings):
    return Submission(
        problem=problem, source=source, backend=backend, settings=Settings(**{"verification": "quick", **settings})
    )


def accept(storage, *args, **more):
    return storage_samples.accept(storage, submission(*args, **more)).evaluation.id


def until(true, timeout_s=180.0):
    """Wait until `true()` is; what it gave."""
    until_s = time.monotonic() + timeout_s
    while not (found := true()):
        assert time.monotonic() < until_s, "it did not come about in time"
        time.sleep(0.01)
    return found


def done(storage, evaluation_id, timeout_s=180.0):
    """The evaluation, once it has ended."""
    return until(lambda: (one := storage.evaluations.get(evaluation_id, None)).state == "done" and one, timeout_s)


def judging(storage, evaluation_id, stage="compile"):
    """The evaluation, once its kernel runs."""

    def running():
        one = storage.evaluations.get(evaluation_id, None)
        return one.state == "running" and one.stage == stage and (one.progress or "").startswith("verify") and one

    return until(running)


def descendants(pid):
    """The living processes below `pid`, each with the time when it started, which tells it from a later one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            started = start_of(int(child))
            if started is not None:
                found += [(int(child), started), *descendants(int(child))]
    return found


def start_of(pid):
    """When a process started; None when it is gone (or a zombie, which is gone but for its parent's look)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def are_gone(processes):
    return all(start_of(pid) != started for pid, started in processes)


def itself(pid):
    return (pid, start_of(pid))


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return start_of(pid) is not None
