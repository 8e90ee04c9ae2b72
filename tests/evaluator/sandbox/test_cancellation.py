"""Jobs that nobody wants any more, in every kind of sandbox of this machine, and the flag that says so."""

import threading
import time

import pytest

from evaluator.cancellation import CancelledError, CancelToken
from evaluator.sandbox.cancellable import CancellableSandbox
from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.sandbox.sandbox import Job, Limits, SessionEndedError

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
    interest = CancelToken()
    soon(interest.withdraw)
    started_s = time.monotonic()
    with pytest.raises(CancelledError):
        CancellableSandbox(inner, interest).run(SLEEP)
    assert time.monotonic() - started_s < 5
    assert list(inner.root.iterdir()) == []


def test_a_session_ends_at_once_for_whoever_waits(inner):
    interest = CancelToken()
    sandbox = CancellableSandbox(inner, interest)
    with sandbox.start(CAT) as session:
        session.send(b"before")
        assert session.receive(6) == b"before"
        soon(interest.withdraw)
        with pytest.raises(SessionEndedError):
            session.receive(1)
    assert list(inner.root.iterdir()) == []
    assert len(sandbox.starts_s) == 1


def test_nothing_starts_after_a_withdrawal(inner):
    interest = CancelToken()
    interest.withdraw()
    for begin in (CancellableSandbox(inner, interest).run, CancellableSandbox(inner, interest).start):
        with pytest.raises(CancelledError):
            begin(SLEEP)


def test_one_withdrawal_ends_many_jobs_and_no_others(inner):
    interest, other = CancelToken(), CancelToken()
    ended = []

    def run(which):
        try:
            CancellableSandbox(inner, which).run(Job(("/usr/bin/sleep", "3"), limits=Limits(wall_s=30)))
            ended.append("whole")
        except CancelledError:
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
    interest = CancelToken()
    soon(interest.withdraw)
    finished = inner.run(Job(("/usr/bin/sleep", "30"), limits=Limits(wall_s=30), interest=interest))
    assert not finished.succeeded
    assert not finished.timed_out


def test_an_act_is_done_once_and_never_after_its_block():
    interest = CancelToken()
    done = []
    with interest.on_withdrawal(lambda: done.append("over")):
        pass
    with interest.on_withdrawal(lambda: done.append("inside")):
        interest.withdraw()
        interest.withdraw()
    with interest.on_withdrawal(lambda: done.append("late")):
        assert done == ["inside", "late"]
    assert interest.withdrawn
    with pytest.raises(CancelledError):
        interest.check()


def test_whoever_leaves_the_block_waits_for_an_act_under_way():
    interest, begun, left = CancelToken(), threading.Event(), []

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
