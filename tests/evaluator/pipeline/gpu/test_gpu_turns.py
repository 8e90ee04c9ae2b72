"""Turns of the referees of one GPU: who waits for whom, in which order, and what a dead one leaves."""

import contextlib
import fcntl
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from stand_in import StandInServices, serve_until_closed
from test_referees import gpu, request

from common.contract import Settings
from evaluator.backends.gpu.session import GpuSession
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.gpu.judging import judge_and_time
from evaluator.pipeline.gpu.referees import GpuReferees
from evaluator.pipeline.gpu.turns import GpuTurn, GpuTurns
from evaluator.sandbox import selftest
from evaluator.settings import MachineSettings


def until(true):
    end_s = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.002)


def test_nobody_is_overtaken_and_who_is_alone_is_alone(tmp_path):
    log, kinds = [], ["alone", "together", "together", "alone", "together"]
    tickets = lambda: len([file for file in tmp_path.iterdir() if "-" in file.name])  # noqa: E731

    def come(number, kind):
        turn = GpuTurn(tmp_path)
        (turn.alone if kind == "alone" else turn.together)()
        log.append((number, "begins"))
        time.sleep(0.02)
        log.append((number, "ends"))
        turn.leave()

    with GpuTurns(tmp_path).job() as first, ThreadPoolExecutor(len(kinds)) as pool:
        for number, kind in enumerate(kinds):
            pool.submit(come, number, kind)
            until(lambda: tickets() == number + 2)  # noqa: B023
        assert log == []
        first.give_way()  # behind all of them: those who would be alone wait already
        assert len(log) >= 8
    begun = [number for number, what in log if what == "begins"]
    assert (begun[0], set(begun[1:3]), begun[3:]) == (0, {1, 2}, [3, 4])
    for number in (0, 3):
        at = log.index((number, "begins"))
        assert log[at + 1] == (number, "ends")
    assert tickets() == 0


def test_what_a_killed_process_held_or_waited_for_holds_up_nobody(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from evaluator.pipeline.gpu.turns import GpuTurn\n"
        "turn = GpuTurn(Path(sys.argv[1])); turn.alone(); print(1, flush=True); time.sleep(600)"
    )
    start = lambda: subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)  # noqa: E731
    holds = start()
    assert holds.stdout.read(2) == b"1\n"
    waits = start()
    until(lambda: len(list(tmp_path.glob("*-alone"))) == 2)
    with ThreadPoolExecutor(1) as pool:
        third = pool.submit(lambda: GpuTurns(tmp_path).job().__enter__().leave())
        until(lambda: len(list(tmp_path.glob("*-together"))) == 1)
        for process in (waits, holds):
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
        third.result(20)
    assert list(tmp_path.glob("*-*")) == []


def test_one_referee_has_no_queue():
    with GpuTurns(None).job() as turn:
        turn.alone()
        turn.give_way()
        turn.together()


def test_two_referees_of_one_gpu_verify_together_and_time_alone(tmp_path, monkeypatch):
    settings = MachineSettings(tmp_path, referees_per_gpu=2)
    place, runs, run_before = selftest.choose(tmp_path / "work"), [], GpuSession.run
    sessions = []  # kept, so that no number is another one's later

    def run(session, asked):
        began_s = time.monotonic()
        outcome = run_before(session, asked)
        sessions.append(session)
        runs.append((id(session), asked.quiet, began_s, time.monotonic()))
        return outcome

    monkeypatch.setattr(GpuSession, "run", run)
    timed = Settings(verification="quick", sizes={"n": 3000}, max_launches=10)
    with contextlib.ExitStack() as stack:
        made = [GpuReferee(gpu(0), settings, number=number) for number in range(2)]
        for referee in made:
            assert "--turns" in referee._command()
            referee._socket.parent.mkdir(parents=True, exist_ok=True)
            services = StandInServices(place, turns=referee._turns)
            stack.enter_context(contextlib.closing(services.runtime))
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(referee._socket))
            listener.listen(16)
            threading.Thread(target=serve_until_closed, args=(listener, services), daemon=True).start()
        both = GpuReferees(made, tmp_path / "referees")
        assert both.count == 2
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: both.judge(request(settings=timed), lambda event: None), range(4)))
    assert all(one.verified.ruling is None and one.look.ruling is None for one in found)
    assert all("turn" in one.phases_s for one in found)
    for session in {session for session, *_ in runs}:
        quiet = [(began_s, ended_s) for one, is_quiet, began_s, ended_s in runs if one == session and is_quiet]
        began_s, ended_s = quiet[0][0], quiet[-1][1]
        others = [one for one in runs if one[0] != session]
        assert not any(other_s < ended_s and end_s > began_s for _, _, other_s, end_s in others)


@pytest.mark.parametrize(
    ("deed", "is_long"), [("slow", True), ("relu", False)], ids=["long launches", "short launches"]
)
def test_contexts_wait_for_timings_of_long_launches_alone(tmp_path, monkeypatch, deed, is_long):
    held, run_before = [], GpuSession.run
    # A busy processor is slow at relu.
    monkeypatch.setattr("evaluator.stages.time.measurement._DISTURBED_US", 20_000.0)
    services = StandInServices(selftest.choose(tmp_path / "work"), turns=tmp_path / "turns")

    def is_held():
        with open(tmp_path / "turns/contexts.lock", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def run(session, asked):
        if asked.steps:
            held.append((asked.quiet, is_held()))
        return run_before(session, asked)

    monkeypatch.setattr(GpuSession, "run", run)
    timed = Settings(verification="quick", sizes={"n": 3000}, max_launches=10)
    asked = request(deed, settings=timed, takes_s=0.03)
    with contextlib.closing(services.runtime) as runtime:
        found = judge_and_time(
            asked,
            lambda plan, size_bytes: runtime.open(asked.program, False, size_bytes),
            services.rng,
            services.baseline,
            lambda event: None,
            turns=services.turns,
        )
    assert found.look.ruling is None
    assert {is_held for quiet, is_held in held if not quiet} == {False}
    assert {is_held for quiet, is_held in held if quiet} == {is_long}
