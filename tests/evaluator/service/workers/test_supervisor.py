"""A process that is kept running: real ones, that end in every way."""

import itertools
import os
import signal
import subprocess
import sys

import pytest
from working import alive, are_gone, descendants, until

from evaluator.service.workers.supervisor import Pauses

KEPT = """
import os, signal, sys, time
from evaluator.service.workers.supervisor import kept_running

def work():
    with open(sys.argv[1], "a") as lives:
        print(os.getpid(), file=lives)
    count = len(open(sys.argv[1]).readlines())
    if count == 1:
        raise AttributeError("'NoneType' object has no attribute 'hostname'")
    if count == 2:
        return 1
    if sys.argv[2] == "ends":
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(3))
    with open(sys.argv[1] + ".ready", "w"):
        pass
    time.sleep(60)

sys.exit(kept_running(work, "the worker of this test"))
"""


class Kept:
    def __init__(self, folder, what):
        self._lives = folder / "lives"
        self.process = subprocess.Popen(
            [sys.executable, "-c", KEPT, str(self._lives), what], stdout=subprocess.PIPE, text=True
        )

    def pids(self):
        return [int(line) for line in self._lives.read_text().split()] if self._lives.exists() else []

    def is_ready(self):
        return self._lives.with_suffix(".ready").exists()

    def end(self):
        """Its exit code, and what it said."""
        said, _ = self.process.communicate(timeout=30)
        return self.process.returncode, said


@pytest.fixture
def kept(tmp_path):
    made = []

    def begin(what="stays"):
        made.append(Kept(tmp_path, what))
        return made[-1]

    yield begin
    for one in made:
        one.process.kill()
        one.process.communicate()


def test_what_fails_is_started_again_and_what_ends_orderly_is_not(kept):
    one = kept("ends")
    code, said = one.end()
    assert code == 0
    assert len(set(one.pids())) == 3
    assert said.count("the worker of this test has ended: started again") == 2
    assert "pause_s=0.2" in said
    assert "pause_s=0.4" in said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 1)])
def test_a_drain_goes_on_to_the_child_and_is_its_last_end(kept, number, code):
    one = kept()
    until(one.is_ready)
    one.process.send_signal(number)
    assert one.end()[0] == code
    assert len(one.pids()) == 3


def test_a_drain_in_a_pause_ends_it(kept):
    one = kept()
    until(lambda: len(one.pids()) > 1 and not alive(one.pids()[1]))
    one.process.send_signal(signal.SIGTERM)
    assert one.end()[0] == 0


def test_a_killed_child_is_replaced(kept):
    one = kept()
    until(one.is_ready)
    os.kill(one.pids()[-1], signal.SIGKILL)
    until(lambda: len(set(one.pids())) == 4)
    assert one.process.poll() is None


def test_the_child_is_killed_with_the_process_that_keeps_it(kept):
    one = kept()
    until(one.is_ready)
    below = descendants(one.process.pid)
    assert [pid for pid, _ in below] == one.pids()[-1:]
    one.process.kill()
    until(lambda: are_gone(below))


def test_pauses_double_until_a_process_has_settled(monkeypatch):
    now_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    pauses = Pauses()
    found = []
    for _ in range(12):
        pauses.started()
        now_s += 1.0
        found.append(pauses.next_s())
    assert found[:2] == [0.2, 0.4]
    assert all(later == min(30.0, 2 * earlier) for earlier, later in itertools.pairwise(found))
    assert found[-1] == 30.0
    pauses.started()
    now_s += 11.0
    assert pauses.next_s() == 0.0
    pauses.started()
    assert pauses.next_s() == 0.2
