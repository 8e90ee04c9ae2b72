"""The kernel's own bound on processes and threads, tried by programs that count what they are refused."""

import sys
from pathlib import Path

import pytest

from evaluator.foreign.zygote import readable_packages
from evaluator.sandbox.host import task_group
from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.sandbox.host.task_group import TaskGroup
from evaluator.sandbox.sandbox import Job, Limits

# It starts forty processes that wait, and never more: what is refused is counted, and all are ended.
COUNTER = """
import os, signal
children, refused = [], 0
for _ in range(40):
    try:
        pid = os.fork()
    except OSError:
        refused += 1
        continue
    if pid == 0:
        signal.pause()
    children.append(pid)
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print(len(children), refused)
"""
THREADS = """
import threading
wait = threading.Event()
threads = [threading.Thread(target=wait.wait) for _ in range(4)]
for one in threads: one.start()
wait.set()
for one in threads: one.join()
print("threads")
"""


def job(text, tasks=16):
    limits = Limits(wall_s=20, processes=tasks, address_space=False)
    return Job((sys.executable, "-I", "-c", text), readable=readable_packages(), bounded_tasks=True, limits=limits)


@pytest.fixture(params=[ProcessSandbox, BubblewrapSandbox], ids=["process", "bubblewrap"])
def sandbox(request, tmp_path):
    return request.param(tmp_path)


def test_the_kernel_refuses_what_is_above_the_limit(sandbox, monkeypatch):
    group = TaskGroup.made(4)
    if group is None:
        pytest.skip("no pids control group can be made here")
    group.close()
    made = TaskGroup.made
    # The watch's own limit lies far above the group's, so that what is seen here is the kernel's.
    monkeypatch.setattr(TaskGroup, "made", lambda tasks: made(4))
    ended = sandbox.run(job(COUNTER, tasks=64))
    started, refused = map(int, ended.stdout.split())
    assert started + refused == 40
    assert 4 <= started <= 4 + 8


def test_without_a_control_group_there_are_threads_only(sandbox, monkeypatch):
    monkeypatch.setattr(TaskGroup, "made", lambda tasks: None)
    counted = sandbox.run(job(COUNTER))
    assert counted.stdout.split() == [b"0", b"40"], counted
    assert sandbox.run(job(THREADS)).stdout.strip() == b"threads"


def test_a_group_is_made_wherever_above_the_controller_is_given_on(monkeypatch, tmp_path):
    own = tmp_path / "service" / "one"
    own.mkdir(parents=True)
    monkeypatch.setattr(Path, "read_text", lambda _: "0::/service/one\n")
    assert task_group._parents(tmp_path) == [own, own.parent, tmp_path]
