"""Contexts are made and ended while nobody times long launches: real runners, on a device that needs no GPU."""

import contextlib
import errno
import fcntl
import os
import time
from types import SimpleNamespace

import pytest

from evaluator.backends.gpu.contexts import ContextFile
from evaluator.backends.gpu.pool import RunnerHungError, RunnerPool
from evaluator.backends.gpu.runner import zygote
from evaluator.backends.gpu.runner.channel import Channel
from evaluator.backends.gpu.runner.context_lock import ContextLock
from evaluator.errors import GpuError
from evaluator.pipeline.gpu.turns import GpuTurns

QUICK, SLOW, KILLED = (f"stand_in_device:{name}" for name in ("StandIn", "SlowStandIn", "KilledStandIn"))


@pytest.fixture(params=["a folder of several referees", "one referee"])
def turns(request, tmp_path):
    return GpuTurns(None if request.param == "one referee" else tmp_path / "turns")


@contextlib.contextmanager
def runners(place, contexts, device=QUICK, ahead=1):
    with contextlib.closing(RunnerPool(place, "none", ahead, device, contexts)) as pool:
        while not pool._forked:
            pool._listen(10.0)
        yield pool


def is_ready(pool, within_s):
    """Whether the next runner says within the time that its context is made."""
    try:
        pool._forked[0].facts = pool._forked[0]._answer(within_s)
    except RunnerHungError:
        return False
    return True


def is_free(contexts):
    """Whether no context is being made or ended."""
    descriptor = contexts.opened(os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def until(true):
    end_s = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.002)


def test_no_context_is_made_while_long_launches_are_timed_and_one_is_after_that(place, turns):
    with turns.job() as turn:
        with turn.exclusive(no_new_contexts=True), contextlib.ExitStack() as stack:
            pool = stack.enter_context(runners(place, turns.contexts))
            assert not is_ready(pool, 0.5)
            stack = stack.pop_all()
        with stack:
            pool.take()
            until(lambda: is_free(turns.contexts))


def test_contexts_are_made_while_short_launches_are_timed(place, turns):
    with turns.job() as turn, turn.exclusive(no_new_contexts=False), runners(place, turns.contexts) as pool:
        assert is_ready(pool, 20.0)


def test_a_timing_waits_for_a_context_that_is_being_made(place, turns):
    with turns.job() as turn, runners(place, turns.contexts, SLOW) as pool:
        until(lambda: not is_free(turns.contexts))
        with turn.exclusive(no_new_contexts=True):
            assert is_ready(pool, 0.05)


def test_a_context_ends_after_the_timing_and_a_later_timing_waits_for_that(place, turns):
    with runners(place, turns.contexts) as pool, turns.job() as turn:
        runner = pool.take()
        with turn.exclusive(no_new_contexts=True):
            pool.release(runner)
            time.sleep(0.3)
            assert not pool.has_ended(runner.pid)
        pool.await_end(runner.pid)
        until(lambda: is_free(turns.contexts))


def test_who_times_can_end_a_runner_at_once_and_it_leaves_nothing_locked(place, turns):
    with runners(place, turns.contexts) as pool, turns.job() as turn:
        runner, other = pool.take(), pool.take()
        with turn.exclusive(no_new_contexts=True):
            began_s = time.monotonic()
            pool.end(runner)
            assert time.monotonic() - began_s < 2.0
        pool.end(other)
        pool.take()
        until(lambda: is_free(turns.contexts))


def test_a_runner_that_is_ended_while_its_context_is_made_leaves_nothing_locked(place, turns):
    with runners(place, turns.contexts, SLOW) as pool:
        until(lambda: not is_free(turns.contexts))
        pool.end(pool._forked[0])
        assert is_free(turns.contexts)


def test_a_runner_that_somebody_kills_while_its_context_is_made_leaves_nothing_locked(place, turns):
    with runners(place, turns.contexts, KILLED) as pool:
        pool.await_end(pool._forked[0].pid)
        assert is_free(turns.contexts)


def test_orders_that_come_together_are_all_obeyed(place):
    with runners(place, None) as pool:
        runner = pool.take()
        pool._channel.send_all([{"order": "fork"}, {"order": "kill", "pid": runner.pid}])
        pool.await_end(runner.pid)


def test_nobody_waits_longer_than_a_bound(turns):
    contexts = turns.contexts
    making = ContextLock(contexts.opened())
    making.enter(0.0)
    began_s = time.monotonic()
    with contexts.without_new(0.2):
        assert 0.2 <= time.monotonic() - began_s < 1.0
    making.leave()
    with contexts.without_new(0.2):
        assert not is_free(contexts)
        began_s = time.monotonic()
        making.enter(0.2)
        assert 0.2 <= time.monotonic() - began_s < 1.0
    assert is_free(contexts)
    making.enter(0.0)
    assert not is_free(contexts)
    making.close()
    assert is_free(contexts)


def test_a_block_that_raises_lets_contexts_be_made(turns):
    def failing(turn):
        with turn.exclusive(no_new_contexts=True):
            assert not is_free(turns.contexts)
            raise GpuError("a runner died", "")

    with turns.job() as turn:
        with pytest.raises(GpuError):
            failing(turn)
        assert is_free(turns.contexts)


def test_a_lock_outlives_the_runner_until_the_zygote_has_heard_of_its_end(turns):
    lock = ContextLock(turns.contexts.opened())
    pid = os.fork()
    if pid == 0:
        lock.enter()
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not is_free(turns.contexts)
    os.waitpid(pid, 0)
    zygote._let_go(lock)
    assert is_free(turns.contexts)


def test_no_descriptor_is_left_where_no_runner_can_be_ordered(place, turns):
    with runners(place, turns.contexts) as pool:
        before = len(os.listdir("/proc/self/fd"))
        pool._ahead, closed = 3, pool._channel
        closed.hang_up()
        with pytest.raises(GpuError, match="is gone"):
            pool.take()
        assert len(os.listdir("/proc/self/fd")) <= before + 1  # a runner's channel that had come already


def test_a_zygote_that_does_not_answer_is_not_waited_for_for_ever(place, monkeypatch):
    with runners(place, None) as pool:
        pool.take()
        monkeypatch.setattr("evaluator.backends.gpu.pool._READY_S", 0.2)
        silent, theirs = Channel.pair()
        answering, pool._channel = pool._channel, silent
        pool._forked.clear()
        began_s = time.monotonic()
        with pytest.raises(GpuError, match="no answer for"):
            pool.take()
        assert time.monotonic() - began_s < 5
        assert pool.gone  # so the referee ends, and the next grader starts another
        pool._channel = answering
        silent.close()
        theirs.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_without_a_file_everything_goes_on_as_without_a_lock(place, tmp_path, monkeypatch, number):
    contexts, before = ContextFile(tmp_path / "contexts.lock"), os.open

    def refused(path, *more, **named):
        if str(path).endswith("contexts.lock"):
            raise OSError(number, os.strerror(number))
        return before(path, *more, **named)

    monkeypatch.setattr("evaluator.backends.gpu.contexts.os", SimpleNamespace(**{**vars(os), "open": refused}))
    assert contexts.opened() is None
    with contexts.without_new(), runners(place, contexts) as pool:
        runner = pool.take()
        pool.release(runner)
        pool.await_end(runner.pid)
