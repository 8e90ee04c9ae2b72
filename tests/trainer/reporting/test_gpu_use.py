"""Measures of GPUs, from a program that prints what nvidia-smi does: there is no GPU where this runs."""

import os
import time

import pytest

from trainer.reporting.gpu_use import GpuUse
from trainer.reporting.metrics import MEASURES


@pytest.fixture
def program(tmp_path, monkeypatch):
    def make(*lines):
        path = tmp_path / "nvidia-smi"
        text = "\n".join(f"echo '{line}'" for line in lines)
        path.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n{text}\ntouch {tmp_path}/said\nexec sleep 600\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return tmp_path

    return make


def soon(condition):
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def test_the_use_of_all_gpus_is_measured_from_step_to_step(program):
    folder = program("90, 40960", "70, 20480", "[N/A], 1024", "50, [N/A]", "nonsense")
    with GpuUse() as use:
        assert soon((folder / "said").exists)
        assert soon(lambda: len(use._busy) == 3 and len(use._memory_mib) == 3)
        assert use.taken() == {"gpu/busy_share": pytest.approx(0.7), "gpu/memory_gib": 40.0}
        assert use.taken() == {}, "a step has its own samples"
        process = use._process
    assert process.poll() is not None
    assert "utilization.gpu,memory.used" in (folder / "asked").read_text()
    assert {"gpu/busy_share", "gpu/memory_gib"} <= set(MEASURES)


def test_without_the_program_nothing_is_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with GpuUse() as use:
        assert use.taken() == {}


def test_a_driver_that_does_not_answer_is_no_measure(program):
    folder = program("No devices were found")
    with GpuUse() as use:
        assert soon((folder / "said").exists)
        assert use.taken() == {}
