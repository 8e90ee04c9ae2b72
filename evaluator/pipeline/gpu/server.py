"""The referee of one GPU: a long-lived process with a context of its own, which draws, judges and times.

    python -m evaluator.pipeline.gpu.server GPU_UUID SOCKET [--idle-s 600] [--jobs-per-runner 1] [--ahead 2]
        [--turns FOLDER] [--together 1]

It holds seeds, inputs, answers, baselines and clocks; the submission's kernels run in runners that it feeds. One job
at a time, in the order in which they came. Graders talk to it over a unix socket that only this user can open:

    judge {} + the request and what  ->  begun, progress {…} …
      states its problem, as files       then judged {…} | unsupported {…} | refused {…} | usage {…} | fault {…}
    facts {}                         ->  facts {…}
    release {}                       ->  nothing; it ends in some seconds unless somebody comes
"""

import argparse
import contextlib
import importlib.metadata
import logging
import select
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from evaluator.backends.gpu.pool import RunnerDiedError
from evaluator.backends.gpu.runner.channel import Channel, ChannelClosedError
from evaluator.backends.gpu.session import UnfitError
from evaluator.backends.session import Session, UnsupportedError
from evaluator.errors import GpuError, InfrastructureError, JobKilledError, UsageError
from evaluator.foreign.reference import ReferenceRefusedError
from evaluator.pipeline.gpu.host_judging import judge_host
from evaluator.pipeline.gpu.judging import judge_and_time
from evaluator.pipeline.gpu.services import GpuRefereeServices, RefereeServices
from evaluator.pipeline.gpu.socket_file import listening_at
from evaluator.pipeline.gpu.stack_samples import sampled
from evaluator.pipeline.progress import Progress, ProgressCallback
from evaluator.pipeline.referee import HostRequest, JudgeRequest, JudgeResult
from evaluator.problems.catalogue import known_as_well
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.time.measurement import Baseline

log = logging.getLogger("assay.referee")

_LOOKS_EVERY_S: Final = 5.0
"""How often it is seen whether graders can still find the referee."""
_RELEASED_S: Final = 5.0
"""What is left to a referee that was released: a grader of someone else's that wants it next comes at once."""


def serve(
    listener: socket.socket,
    services: RefereeServices,
    idle_s: float | None = None,
    is_there: Callable[[], bool] = lambda: True,
) -> None:
    """Answer graders, one after another, until nobody has come for `idle_s` seconds, or for a few since someone said
    that he needs the referee no more, or nobody can come (`is_there`), or there are no more runners.
    """
    limit_s, since_s = idle_s, time.monotonic()
    while is_there():
        left_s = _LOOKS_EVERY_S if limit_s is None else limit_s - (time.monotonic() - since_s)
        if left_s <= 0:
            log.info("no work for %s s: the referee exits", limit_s)
            return
        if not select.select([listener], [], [], min(left_s, _LOOKS_EVERY_S))[0]:
            continue
        connection, _ = listener.accept()
        channel = Channel(connection)
        limit_s = idle_s
        try:
            _attend(channel, services)
        except ChannelClosedError:
            log.info("a grader went away")
        except _ReleasedError:
            limit_s = _RELEASED_S if idle_s is None else min(idle_s, _RELEASED_S)
        finally:
            channel.close()
        since_s = time.monotonic()
        if services.runtime.pool.gone or not services.usable():
            log.error("no more runners, or a broken context: the referee ends, and the next grader starts another")
            return
    log.info("nobody can find this referee any more: it exits")


class _ReleasedError(Exception):
    """Whoever is connected needs the referee no more."""


def _attend(channel: Channel, services: RefereeServices) -> None:
    while True:
        message = channel.receive()
        if message["order"] == "release":
            raise _ReleasedError
        if message["order"] == "facts":
            channel.send({"facts": services.facts()})
            continue
        text, origin = _taken(channel), _taken(channel)
        if message.get("host"):
            channel.send({"begun": True})
            channel.send(_answer_of_host(text, origin, services, _reporter(channel)))
            continue
        if not origin:
            request = JudgeRequest.from_json(text)
            channel.send({"begun": True})
            channel.send(_answer(request, services, services.baseline, _reporter(channel)))
            continue
        channel.send({"begun": True})
        channel.send(_answer_of_others(text, origin, services, _reporter(channel)))


def _taken(channel: Channel) -> bytes:
    with open(channel.take_descriptor(), "rb") as file:
        file.seek(0)
        return file.read()


def _answer_of_others(
    text: bytes, origin: bytes, services: RefereeServices, report: ProgressCallback
) -> dict[str, Any]:
    """One job for a problem that `origin` states."""
    references = services.references

    def answered() -> dict[str, Any]:
        with references.stated(origin) as problem, known_as_well(problem):
            request = JudgeRequest.from_json(text)
            version = importlib.metadata.version("torch").partition("+")[0]
            with references.baseline(origin, request.settings, services.baseline, version) as baseline:
                return _answer(request, services, baseline, report)

    return _ended(answered)


def _answer_of_host(
    text: bytes, origin: bytes, services: RefereeServices, report: ProgressCallback
) -> dict[str, Any]:
    """One job whose host code runs."""
    started_s = time.monotonic()

    def judged() -> dict[str, Any]:
        with contextlib.ExitStack() as stack:
            if origin:
                problem = stack.enter_context(services.references.stated(origin))
                stack.enter_context(known_as_well(problem))
            found = judge_host(
                HostRequest.from_json(text),
                services.host_runtime,
                services.rng,
                services.baseline,
                report,
                services.turns,
            )
        return {"judged": found.to_json().decode(), "seconds": time.monotonic() - started_s}

    return _ended(judged)


def _answer(
    request: JudgeRequest, services: RefereeServices, baseline: Baseline, report: ProgressCallback
) -> dict[str, Any]:
    """One job from its request to the grader's answer."""
    started_s = time.monotonic()

    begun = False

    def open_session(checked_plan: CheckedPlan, memory_bytes: int) -> Session:
        nonlocal begun
        attributes = _needs_attributes(checked_plan)
        try:
            session = services.runtime.open(
                request.program, attributes, memory_bytes, leaves_traces=request.local_memory
            )
        except UnfitError as unfit:
            if begun:  # it may be what this job did
                raise GpuError(str(unfit), unfit.remedy) from unfit
            raise
        begun = True
        return session

    def judge() -> JudgeResult:
        return judge_and_time(
            request, open_session, services.rng, baseline, report, services.instruments, services.turns
        )

    def answered() -> dict[str, Any]:
        try:
            judged = judge()
        except RunnerDiedError as died:
            log.warning("tried again: %s", died)
            judged = judge()
        return {"judged": judged.to_json().decode(), "seconds": time.monotonic() - started_s}

    return _ended(answered)


def _ended(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer that `work` gives, or what ended it."""
    try:
        return work()
    except UnsupportedError as missing:
        return {"unsupported": {"feature": missing.feature, "line": missing.line}}
    except ReferenceRefusedError as refused:
        return {"refused": {"message": str(refused), "remedy": refused.remedy}}
    except UsageError as error:
        return {"usage": {"message": str(error), "remedy": error.remedy}}
    except InfrastructureError as fault:
        log.warning("a job failed through our fault: %s", fault)
        killed = isinstance(fault, JobKilledError) or getattr(fault, "killed_from_outside", False)
        unfit = isinstance(fault, UnfitError)
        return {"fault": {"message": str(fault), "remedy": fault.remedy, "killed": killed, "unfit": unfit}}
    except ChannelClosedError:
        raise
    except Exception as error:  # a defect that one job meets ends that job, not those of all others
        log.exception("a job met a defect of the referee")
        said = str(error).splitlines()
        message = f"The referee failed on this job: {type(error).__name__}: {said[0] if said else 'no message'}"
        return {"fault": {"message": message, "remedy": "Please report it with the referee's log."}}


def _needs_attributes(checked_plan: CheckedPlan) -> bool:
    return any(step.kind == "launch" and (step.cooperative or step.cluster) for step in checked_plan.steps)


def _reporter(channel: Channel) -> ProgressCallback:
    said_s = 0.0

    def report(event: Progress) -> None:
        nonlocal said_s
        now_s = time.monotonic()
        if now_s - said_s > 0.05:
            said_s = now_s
            channel.send({"progress": asdict(event)})

    return report


def main() -> None:
    """The process: serve until idle; exit code 3, with the reason on stderr, where there is no working GPU."""
    parser = argparse.ArgumentParser(prog="python -m evaluator.pipeline.gpu.server")
    parser.add_argument("gpu")
    parser.add_argument("socket", type=Path)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--idle-s", type=float, default=600.0)
    parser.add_argument("--jobs-per-runner", type=int, default=1)
    parser.add_argument("--ahead", type=int, default=2)
    parser.add_argument("--cache-bytes", type=int, default=4 << 30)
    parser.add_argument("--turns", type=Path, help="a folder of all referees of this GPU; without it there is one")
    parser.add_argument("--together", type=int, default=1, help="small trials that are launched together at most")
    wanted = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        services = GpuRefereeServices(
            wanted.gpu,
            wanted.data_dir,
            wanted.sandbox,
            wanted.ahead,
            wanted.jobs_per_runner,
            wanted.cache_bytes,
            wanted.turns,
            wanted.together,
        )
    except InfrastructureError as fault:
        print(f"{fault} {fault.remedy or ''}", file=sys.stderr)
        raise SystemExit(3) from fault
    with (
        contextlib.closing(services.runtime),
        contextlib.closing(services.host_runtime),
        contextlib.closing(services.references),
        listening_at(wanted.socket) as file,
    ):
        log.info("the referee of %s is ready", wanted.gpu)
        with sampled():
            serve(file.listener, services, wanted.idle_s, file.is_there)


if __name__ == "__main__":
    main()
