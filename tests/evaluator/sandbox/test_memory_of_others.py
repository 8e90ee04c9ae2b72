"""Memory that others have taken is held against no job, in real control groups: for root alone."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "soak"))
from memory import ControlGroup

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
    print(json.dumps([ran.signal, sorted(ran.own_signals), ran.memory_exceeded]))
"""


@pytest.fixture
def group():
    made = ControlGroup.made(LIMIT_BYTES)
    if made is None:
        pytest.skip("only root can make a control group")
    yield made
    made.remove()


@pytest.mark.parametrize("kind", ["process", "bubblewrap"])
@pytest.mark.parametrize("takes_bytes", [1 << 20, 400 << 20], ids=["a small job", "a large job"])
def test_a_job_that_is_killed_for_memory_is_to_blame_where_it_has_most_of_it(group, tmp_path, kind, takes_bytes):
    command = [sys.executable, "-c", textwrap.dedent(RUN), kind, tmp_path / "jobs", str(takes_bytes)]
    paths = os.pathsep.join((str(Path(__file__).parent), *sys.path))
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: group.take_in(os.getpid()),
    ) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(3)
        assert group.run_out() >= 1
        number, own, exceeded = json.loads(process.stdout.read())
    assert (number, own, exceeded) == (9, [9] if takes_bytes > LIMIT_BYTES // 2 else [], False)
