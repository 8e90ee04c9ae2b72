"""The proof of the layers, and the choice of a sandbox."""

import subprocess
import sys
from pathlib import Path

import pytest

from evaluator.errors import SandboxError, UsageError
from evaluator.sandbox import selftest
from evaluator.sandbox.host import bubblewrap
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.sandbox.sandbox import Isolation, JobResult
from evaluator.sandbox.selftest import choose, probe_sandbox

REPOSITORY = Path(__file__).parents[3]
UNPROMISED_BY_PROCESS = {"network", "host_files", "write_outside", "other_processes", "identity", "kernel_calls"}


@pytest.fixture
def broken_bubblewrap(tmp_path, monkeypatch):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No namespace: Operation not permitted' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: program)
    selftest._bubblewrap_fault.cache_clear()
    yield
    selftest._bubblewrap_fault.cache_clear()


@pytest.mark.parametrize("kind", ["process", "bubblewrap", "docker"])
def test_every_promise_holds(tmp_path, kind, request):
    if kind == "docker":
        request.getfixturevalue("docker_sandbox_works")
    layers = probe_sandbox(choose(tmp_path, kind))
    assert {layer.name for layer in layers} == {isolation.value for isolation in Isolation}
    assert [layer for layer in layers if layer.promised and not layer.holds] == []


def test_the_process_sandbox_promises_what_the_kernel_gives_it(tmp_path):
    bare = ProcessSandbox(tmp_path, use_seccomp=False, use_landlock=False)
    layers = {layer.name: layer for layer in probe_sandbox(bare)}
    assert {name for name, layer in layers.items() if not layer.promised} == UNPROMISED_BY_PROCESS
    # The attempts succeed where nothing stops them, so a held layer elsewhere is no accident.
    assert not any(layers[name].holds for name in UNPROMISED_BY_PROCESS)
    assert bare.promises < ProcessSandbox(tmp_path).promises


def test_auto_takes_bubblewrap_where_it_works(tmp_path):
    assert choose(tmp_path).name == "bubblewrap"


def test_auto_falls_back_and_a_wish_is_answered_with_reason_and_remedy(tmp_path, broken_bubblewrap):
    assert choose(tmp_path / "jobs").name == "process"
    with pytest.raises(SandboxError, match="Operation not permitted") as caught:
        choose(tmp_path / "jobs", "bubblewrap")
    assert "user namespaces" in caught.value.remedy
    assert list((tmp_path / "jobs").iterdir()) == []


_ON_A_MOUNT = """
mkdir -p "$1" && mount -t tmpfs -o $2 tmpfs "$1" || exit 77
exec "$0" -c 'import sys; from pathlib import Path; from evaluator.sandbox.selftest import choose
print(choose(Path(sys.argv[1]) / "work", "process").name)' "$1"
"""


@pytest.mark.parametrize(("option", "said"), [("exec", "process"), ("noexec", "mounted with `noexec`")])
def test_a_folder_where_nothing_can_be_run_is_refused(tmp_path, option, said):
    """Each compile would fail there, and its source would get the blame."""
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    told = ["/bin/sh", "-c", _ON_A_MOUNT, sys.executable, tmp_path / "mount", option]
    found = subprocess.run([*alone, *told], capture_output=True, text=True, cwd=REPOSITORY, check=False)
    if found.returncode == 77 or "unshare failed" in found.stderr:
        pytest.skip(f"nothing can be mounted here: {found.stderr}")
    assert said in found.stdout + found.stderr
    assert (found.returncode == 0) is (option == "exec")


def test_an_unknown_kind_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="chroot"):
        choose(tmp_path, "chroot")


@pytest.mark.parametrize(("waited_s", "holds"), [(0.0, False), (6.0, True)])
def test_the_time_that_a_job_stands_in_line_for_a_processor_is_no_time_that_it_was_allowed(waited_s, holds):
    class Late:
        def run(self, job):
            return JobResult(None, 9, b"", b"", {}, wall_s=6.5, waited_s=waited_s, timed_out=True)

    assert selftest._wall_time(Late())[0] is holds
