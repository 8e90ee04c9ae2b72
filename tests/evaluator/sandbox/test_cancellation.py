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
    cancel_token = CancelToken()
    soon(cancel_token.cancel)
    started_s = time.monotonic()
    with pytest.raises(CancelledError):
        CancellableSandbox(inner, cancel_token).run(SLEEP)
    assert time.monotonic() - started_s < 5
    assert list(inner.root.iterdir()) == []


def test_a_session_ends_at_once_for_whoever_waits(inner):
    cancel_token = CancelToken()
    sandbox = CancellableSandbox(inner, cancel_token)
    with sandbox.start(CAT) as session:
        session.send(b"before")
        assert session.receive(6) == b"before"
        soon(cancel_token.cancel)
        with pytest.raises(SessionEndedError):
            session.receive(1)
    assert list(inner.root.iterdir()) == []
    assert len(sandbox.starts_s) == 1


def test_nothing_starts_after_a_withdrawal(inner):
    cancel_token = CancelToken()
    cancel_token.cancel()
    for begin in (CancellableSandbox(inner, cancel_token).run, CancellableSandbox(inner, cancel_token).start):
        with pytest.raises(CancelledError):
            begin(SLEEP)


def test_one_withdrawal_ends_many_jobs_and_no_others(inner):
    cancel_token, other = CancelToken(), CancelToken()
    ended = []

    def run(which):
        try:
            CancellableSandbox(inner, which).run(Job(("/usr/bin/sleep", "3"), limits=Limits(wall_s=30)))
            ended.append("whole")
        except CancelledError:
            ended.append("cancelled")

    threads = [
        threading.Thread(target=run, args=(which,)) for which in (cancel_token, cancel_token, cancel_token, other)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    cancel_token.cancel()
    for thread in threads:
        thread.join()
    assert ended == ["cancelled"] * 3 + ["whole"]


def test_a_job_without_a_wrapper_looks_as_if_it_was_killed(inner):
    cancel_token = CancelToken()
    soon(cancel_token.cancel)
    finished = inner.run(Job(("/usr/bin/sleep", "30"), limits=Limits(wall_s=30), cancel_token=cancel_token))
    assert not finished.succeeded
    assert not finished.timed_out


def test_an_act_is_done_once_and_never_after_its_block():
    cancel_token = CancelToken()
    done = []
    with cancel_token.on_cancel(lambda: done.append("over")):
        pass
    with cancel_token.on_cancel(lambda: done.append("inside")):
        cancel_token.cancel()
        cancel_token.cancel()
    with cancel_token.on_cancel(lambda: done.append("late")):
        assert done == ["inside", "late"]
    assert cancel_token.cancelled
    with pytest.raises(CancelledError):
        cancel_token.check()


def test_whoever_leaves_the_block_waits_for_an_act_under_way():
    cancel_token, begun, left = CancelToken(), threading.Event(), []

    def act():
        begun.set()
        time.sleep(0.2)
        left.append("act")

    with cancel_token.on_cancel(act):
        thread = soon(cancel_token.cancel, 0)
        begun.wait()
    left.append("block")
    thread.join()
    assert left == ["act", "block"]
