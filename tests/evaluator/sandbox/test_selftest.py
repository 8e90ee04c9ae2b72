"""The proof of the layers, and the choice of a sandbox."""

import pytest

from evaluator.errors import SandboxError, UsageError
from evaluator.sandbox import selftest
from evaluator.sandbox.host import bubblewrap
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.sandbox.sandbox import Isolation, JobResult
from evaluator.sandbox.selftest import choose, probe_sandbox

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


def test_an_unknown_kind_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="chroot"):
        choose(tmp_path, "chroot")


@pytest.mark.parametrize(("waited_s", "holds"), [(0.0, False), (6.0, True)])
def test_the_time_that_a_job_stands_in_line_for_a_processor_is_no_time_that_it_was_allowed(waited_s, holds):
    class Late:
        def run(self, job):
            return JobResult(None, 9, b"", b"", {}, wall_s=6.5, waited_s=waited_s, timed_out=True)

    assert selftest._wall_time(Late())[0] is holds
