"""Jobs that nobody wants any more, in every kind of sandbox of this machine, and the flag that says so."""

import threading
import time

import pytest

from evaluator.cancellation import Interest, Withdrawn
from evaluator.sandbox.cancellable import WithdrawableSandbox
from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.sandbox.sandbox import Job, Limits, SessionEnded

SLEEP = Job(("/usr/bin/sleep", "30"), limits=Limits(wall_s=30))
CAT = Job(("/usr/bin/cat",), limits=Limits(wall_s=30))


@pytest.fixture(params=[ProcessSandbox, BubblewrapSandbox], ids=lambda kind: kind.name)
def inner(request, tmp_path):
    return request.param(tmp_path)


def soon(act, after_s=0.3):
    timer = threading.Timer(after_s, act)
    timer.start()
    return timer


def test_a_run_ends_at_once_and_has_no_result(inner):
    interest = Interest()
    soon(interest.withdraw)
    started_s = time.monotonic()
    with pytest.raises(Withdrawn):
        WithdrawableSandbox(inner, interest).run(SLEEP)
    assert time.monotonic() - started_s < 5
    assert list(inner.root.iterdir()) == []


def test_a_session_ends_at_once_for_whoever_waits(inner):
    interest = Interest()
    sandbox = WithdrawableSandbox(inner, interest)
    with sandbox.start(CAT) as session:
        session.send(b"before")
        assert session.receive(6) == b"before"
        soon(interest.withdraw)
        with pytest.raises(SessionEnded):
            session.receive(1)
    assert list(inner.root.iterdir()) == []
    assert len(sandbox.starts_s) == 1


def test_nothing_starts_after_a_withdrawal(inner):
    interest = Interest()
    interest.withdraw()
    for begin in (WithdrawableSandbox(inner, interest).run, WithdrawableSandbox(inner, interest).start):
        with pytest.raises(Withdrawn):
            begin(SLEEP)


def test_one_withdrawal_ends_many_jobs_and_no_others(inner):
    interest, other = Interest(), Interest()
    ended = []

    def run(which):
        try:
            WithdrawableSandbox(inner, which).run(Job(("/usr/bin/sleep", "3"), limits=Limits(wall_s=30)))
            ended.append("whole")
        except Withdrawn:
            ended.append("withdrawn")

    threads = [threading.Thread(target=run, args=(which,)) for which in (interest, interest, interest, other)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    interest.withdraw()
    for thread in threads:
        thread.join()
    assert ended == ["withdrawn"] * 3 + ["whole"]


def test_a_job_without_a_wrapper_looks_as_if_it_was_killed(inner):
    interest = Interest()
    soon(interest.withdraw)
    finished = inner.run(Job(("/usr/bin/sleep", "30"), limits=Limits(wall_s=30), interest=interest))
    assert not finished.succeeded
    assert not finished.timed_out


def test_an_act_is_done_once_and_never_after_its_block():
    interest = Interest()
    done = []
    with interest.on_withdrawal(lambda: done.append("over")):
        pass
    with interest.on_withdrawal(lambda: done.append("inside")):
        interest.withdraw()
        interest.withdraw()
    with interest.on_withdrawal(lambda: done.append("late")):
        assert done == ["inside", "late"]
    assert interest.withdrawn
    with pytest.raises(Withdrawn):
        interest.check()


def test_whoever_leaves_the_block_waits_for_an_act_under_way():
    interest, begun, left = Interest(), threading.Event(), []

    def act():
        begun.set()
        time.sleep(0.2)
        left.append("act")

    with interest.on_withdrawal(act):
        thread = soon(interest.withdraw, 0)
        begun.wait()
    left.append("block")
    thread.join()
    assert left == ["act", "block"]
