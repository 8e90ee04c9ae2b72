"""A public solution judged in both forms, lifted and built, by a process that does one after another.

`benchmarks/gpu/public_and_built.py` says what the forms are.
"""

import contextlib
import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from benchmarks._support.built_solve import BuiltError, called_as, judged_as_built, shared_library
from benchmarks._support.one_gpu import one_gpu, the_gpu
from benchmarks._support.worker_process import served
from benchmarks.grading.public_survey import AsStated, problem_in, row_of
from common.contract import Settings, Submission
from evaluator.cancellation import CancelledError, CancelToken
from evaluator.foreign.reference import ReferenceRefusedError
from evaluator.foreign.zygote import KEPT
from evaluator.pipeline.gpu.turns import GpuTurns
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem
from evaluator.seed import Seed
from evaluator.settings import MachineSettings
from evaluator.stages.host.extension_build import ExtensionBuild, ExtensionText
from evaluator.stages.host.torch_package import find_torch
from evaluator.stages.lift.binding import LiftRefusedError

SIDES: Final = ("lifted", "built")
JUDGED: Final = ("passed", "incorrect", "runtime_error", "rejected")
_TESTS: Final = Path(__file__).parents[2] / "tests"
_AS_STATED: Final = AsStated(work=1 << 31, tensor_bytes=16 << 20)
"""An answer is nine runs in float64 on the processor: a microsecond for each element. Either form asks for three."""
_RUN_S: Final = {"off": 15.0, "always": 30.0}
"""Of all launches of a form: a kernel that never ends holds the GPU for so long. Where host code runs, its Triton is
compiled in that time, for each set of sizes anew.
"""
_IDLE_S: Final = 60.0
_OURS: Final = ("internal_error", "out_of_memory", "not_done")
"""What another try may not meet: several forms share the GPU's memory."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """How a worker grades."""

    data_dir: Path
    referees: int
    limit_s: float
    rehearse: bool
    stand_in: bool

    @property
    def settings(self) -> MachineSettings:
        return replace(
            MachineSettings.from_environment(),
            data_dir=self.data_dir,
            gpu=one_gpu(),
            host_tier="on",
            # Two at least: one alone takes no turns, and called libraries have to.
            referees_per_gpu=max(2, self.referees),
            referee_idle_s=_IDLE_S,
        )

    def toolbox(self) -> Toolbox:
        """The tools of this process."""
        if not self.stand_in:
            return Toolbox(self.settings)
        sys.path.insert(0, str(_TESTS / "evaluator"))
        from host_tier import host_toolbox

        made: Toolbox = host_toolbox(self.data_dir)
        return made

    def turn(self) -> contextlib.AbstractContextManager[Any]:
        """A turn on the GPU beside its referees."""
        return GpuTurns(self.data_dir / "referees" / f"{the_gpu().uuid}.turns").job()


@dataclass(frozen=True)
class Order:
    """What a worker is to do with a pair."""

    place: Path
    sides: tuple[str, ...]
    limit_s: float
    """For each of them."""
    until_s: float
    """When all is over, by the clock that all processes of a machine share."""


def prepare_headers(bench: Bench) -> None:
    """Prepare PyTorch's headers for extensions with usual flags, so that no pair does it in its time."""
    began_s, tools = time.monotonic(), bench.toolbox()
    try:
        assert tools.gpu is not None
        text, arch = ExtensionText("extension", (), ("",)), tools.gpu.arch
        ExtensionBuild(text, Settings(), arch, find_torch(), tools.toolchain, tools.sandbox, tools.cache).prepare()
        print(f"headers prepared in {time.monotonic() - began_s:.1f} s", flush=True)
    except Exception as error:  # it saves time, and no more
        print(f"headers were not prepared: {error!r}"[:500], flush=True)


def serve(work: Connection, bench: Bench) -> None:
    """Judge the pairs that come through this pipe, each in both forms: what a worker's process runs."""
    # What a worker started is to end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    toolbox = bench.toolbox()
    try:
        served(work, lambda order: _judged(order, bench, toolbox))
    finally:
        KEPT.end_all()
        if bench.stand_in:
            toolbox.gpu.runtime.close()  # type: ignore[union-attr]


def _judged(order: Order, bench: Bench, toolbox: Toolbox) -> Iterator[Row]:
    """The row of a pair, part by part."""
    place, limit = order.place, _Limit(order)
    bound = toolbox.bound_to(limit.token)
    source = next(place.glob("solution.*")).read_text(errors="replace")
    pair = json.loads((place / "pair.json").read_text())
    form = pair["form"]
    try:
        with limit, _problem(place, pair, bound) as problem:
            yield {"sizes": problem.example_sizes[0]}
            graded = partial(_graded, source, problem, bound, bench)
            if "lifted" in order.sides:
                lifted = _tried(partial(graded, "sim" if bench.stand_in else "gpu", "off"), limit)
                yield {"lifted": lifted}
                if "built" not in order.sides or lifted["status"] not in JUDGED:
                    return
                limit.begin()
            called = partial(_called, source, problem, bound, bench)
            yield {"built": _tried(called if form == "solve" else partial(graded, "gpu", "always"), limit)}
    except ReferenceRefusedError as refusal:
        yield {name: {**ending("no_problem", "problem", str(refusal)), "seconds": 0.0} for name in SIDES}
    except CancelledError:
        yield {}
    except Exception as error:  # a pair that we fail on is a row, and the next one follows
        yield {"fault": repr(error)[:2000]}


def _problem(place: Path, pair: Row, toolbox: Toolbox) -> contextlib.AbstractContextManager[Problem]:
    """One of ours, which the pair names, or the one that its file states. Raises ReferenceRefusedError."""
    if isinstance(pair["problem"], str) and pair["problem"]:
        return contextlib.nullcontext(find_problem(pair["problem"]))
    return problem_in((place / "problem.py").read_bytes(), toolbox, _AS_STATED)


class _Limit:
    """The time that one side of a pair has: after it, its token is cancelled."""

    def __init__(self, order: Order) -> None:
        self.token = CancelToken()
        self._order = order
        self._timer: threading.Timer | None = None
        self.limit_s = 0.0

    def begin(self) -> None:
        """From now on."""
        self.end()
        self.limit_s = max(0.0, min(self._order.limit_s, self._order.until_s - time.monotonic()))
        self._timer = threading.Timer(self.limit_s, self.token.cancel)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """No more."""
        if self._timer is not None:
            self._timer.cancel()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *ended: object) -> None:
        self.end()


def _tried(work: Callable[[], Row], limit: _Limit) -> Row:
    """What `work` gives, and how long it took; once more where it met what another try may not."""
    began_s = time.monotonic()
    row = _once(work, limit)
    if again := row["status"] in _OURS and not limit.token.cancelled:
        row = {**_once(work, limit), "before": f"{row['status']}: {row['message']}"[:500]}
    return {**row, "tries": 1 + again, "seconds": round(time.monotonic() - began_s, 1)}


def _once(work: Callable[[], Row], limit: _Limit) -> Row:
    try:
        row = work()
    except CancelledError:
        row = ending("not_done", "?", "")
    except ReferenceRefusedError as refusal:
        row = ending("no_problem", "problem", str(refusal))
    except Exception as error:
        row = ending("internal_error", "?", repr(error)[:2000])
    if limit.token.cancelled:
        row |= {"status": "not_done", "phase": "?", "message": f"not done in {limit.limit_s:.0f} s"}
    return row


def _graded(source: str, problem: Problem, toolbox: Toolbox, bench: Bench, backend: str, host_tier: str) -> Row:
    settings = {
        "verification": "quick",
        "timing": False,
        "estimate_for": None,
        "host_tier": host_tier,
        "rehearse": bench.rehearse,
        "run_timeout_s": _RUN_S[host_tier],
    }
    asked = {"problem": problem.id, "source": source, "backend": backend, "settings": settings}
    verdict = evaluate(Submission.model_validate(asked), toolbox, problem=problem)
    phases_s = dict(verdict.receipt.phases_s) if verdict.receipt else {}
    return {**row_of(verdict), "phases_s": {name: round(took_s, 2) for name, took_s in phases_s.items()}}


def _called(source: str, problem: Problem, toolbox: Toolbox, bench: Bench) -> Row:
    """A `solve` file, compiled and called."""
    assert toolbox.gpu is not None
    arch = toolbox.gpu.arch
    with tempfile.TemporaryDirectory(prefix="assay-called-") as named:
        folder = Path(named)
        try:
            call = called_as(source, problem, toolbox, arch)
            library = shared_library(source, "solution", toolbox.toolchain, arch, folder)
            if bench.stand_in:
                return ending("built", "compile", "")
            seed = int(Seed.fresh().generator().integers(1 << 53))
            status, message = judged_as_built(call, library, problem, folder, seed, bench.turn(), the_gpu().uuid)
            return ending(status, "verify", message)
        except LiftRefusedError as refusal:
            return ending(refusal.ruling.status.value, "lift", refusal.ruling.message)
        except BuiltError as failed:
            return ending(failed.status, "compile" if failed.status == "compile_error" else "verify", str(failed))


def ending(status: str, phase: str, message: str) -> Row:
    """One side of a row, of what has no verdict."""
    return {"status": status, "phase": phase, "lifted": False, "message": message}
