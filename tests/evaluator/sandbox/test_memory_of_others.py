"""Memory that others have taken is held against no job, in real control groups: for root alone."""

import json
import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "soak"))
from memory import V1, V2, ControlGroup, bounded
from sandbox_jobs import python

from evaluator.sandbox.container.docker import DockerSandbox
from evaluator.sandbox.sandbox import Limits

# Below what the memory of a group that is full leaves to others of the same test.
LIMIT_BYTES = 512 << 20
RUN = """
    import json, sys
    from pathlib import Path
    from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
    from evaluator.sandbox.host.process import ProcessSandbox
    from evaluator.sandbox.sandbox import Limits
    from sandbox_jobs import python

    kind = {"process": ProcessSandbox, "bubblewrap": BubblewrapSandbox}[sys.argv[1]]
    sandbox = kind(Path(sys.argv[2]))
    script = f"import time; x = b'x' * {sys.argv[3]}; time.sleep(30)"
    print("begun", flush=True)
    ran = sandbox.run(python(sandbox, script, limits=Limits(wall_s=60.0)))
    print(json.dumps([ran.signal, sorted(ran.own_signals), ran.memory_taken]))
"""


@pytest.fixture
def group():
    made = ControlGroup.made(LIMIT_BYTES)
    if made is None:
        pytest.skip("only root can make a control group")
    yield made
    made.remove()


def begun(group, place, kind, takes_bytes):
    """A process in the group that runs one job, which takes so much."""
    command = [sys.executable, "-c", textwrap.dedent(RUN), kind, place / "jobs", str(takes_bytes)]
    paths = os.pathsep.join((str(Path(__file__).parent), *sys.path))
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: group.take_in(os.getpid()),
    )
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("kind", ["process", "bubblewrap"])
@pytest.mark.parametrize("takes_bytes", [40 << 20, 330 << 20], ids=["a small job", "a large job"])
def test_a_job_that_is_killed_for_memory_that_others_took_is_not_to_blame(group, tmp_path, kind, takes_bytes):
    for _ in range(5):
        with begun(group, tmp_path, kind, takes_bytes) as process:
            time.sleep(3)
            assert group.run_out() >= 1
            told = process.stdout.read()
        # Where the memory of the job comes back slowly, the kernel kills another one: the grader of this test.
        if told:
            break
    assert json.loads(told) == [9, [], True]


@pytest.mark.parametrize("kind", ["process", "bubblewrap"])
def test_a_job_that_takes_all_memory_there_is_is_to_blame(group, tmp_path, kind):
    with begun(group, tmp_path, kind, 2 * LIMIT_BYTES) as process:
        assert json.loads(process.stdout.read()) == [9, [9], False]


@pytest.mark.usefixtures("docker_sandbox_works")
def test_a_container_that_is_killed_for_the_memory_of_all_has_met_no_limit(tmp_path):
    groups = [root / "docker" for root in (V1, V2) if (root / "docker" / "cgroup.procs").exists()]
    if not groups or os.geteuid() != 0:
        pytest.skip("there is no control group of all containers, or not for this user")
    sandbox = DockerSandbox(tmp_path / "jobs")
    try:
        with ThreadPoolExecutor(1) as pool:
            job = python(sandbox, "import time; time.sleep(60)", limits=Limits(wall_s=90.0))
            running = pool.submit(sandbox.run, job)
            time.sleep(5)
            with bounded(groups[0], 64 << 20) as group:
                assert group.run_out() >= 1
            ran = running.result()
    finally:
        sandbox.close()
    assert (ran.signal, ran.own_signals, ran.memory_exceeded, ran.limit_hit) == (9, frozenset(), False, None)
