"""Processes for host code, made ready for a session."""

import pytest

from evaluator.backends.gpu.host import session
from evaluator.backends.gpu.host.process import RunnableText
from evaluator.errors import GpuError


class Side:
    device = "stand-in"


@pytest.fixture
def started(monkeypatch):
    """All processes that were started, in their order; the first `started.without_memory` find none."""

    class Started(list):
        without_memory = 0

    found = Started()

    class Process:
        usable = alive = True

        def __init__(self, *of):
            found.append(self)

        def await_ready(self):
            if found.index(self) < found.without_memory:
                raise GpuError("A process for host code did not start: out of memory", "Run `assay doctor`.")

        def close(self):
            pass

    monkeypatch.setattr(session, "HostProcess", Process)
    return found


def opened():
    return session.HostRuntime(None, "", Side(), ahead=False).open(RunnableText("kernelbench", ""), None)


def test_a_process_that_finds_no_memory_is_started_once_more(started):
    started.without_memory = 1
    opened()
    # Two are wanted: the submission's, and the one of ours.
    assert len(started) == 3


def test_where_the_second_finds_none_either_the_reason_is_said(started):
    started.without_memory = 9
    with pytest.raises(GpuError, match="out of memory"):
        opened()
    assert len(started) == 3
