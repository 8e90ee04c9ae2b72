"""The rehearsal under compute-sanitizer: a stand-in for the tool, which runs the program as well."""

import sys

import numpy as np
import pytest
from stand_in import program, relu_plan

from common.contract import Settings, Status
from evaluator.backends.gpu.tools import sanitizer
from evaluator.backends.gpu.tools.launch import ToolRunner
from evaluator.backends.gpu.tools.sanitizer import Sanitizer
from evaluator.problems.arrays import NumpyRng
from evaluator.sandbox import selftest
from evaluator.stages.verify.sanitizer_run import sanitize
from evaluator.stages.verify.trials import plan_trials, rehearsal

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at k(const float *, float *, int)+0x1a0 in kernel.cu:11
=========     and Read access at k(const float *, float *, int)+0x240 in kernel.cu:14 [508892 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNWRITTEN = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at k(const float *, float *, int)+0x8c0 in kernel.cu:16
=========     by thread (0,0,0) in block (31,0,0)
=========     Address 0x7f3024800400
=========
========= ERROR SUMMARY: 1 error
"""


@pytest.fixture
def sanitized(tmp_path, monkeypatch):
    """`sanitized(deed, {tool: report})`: what the stage makes of it."""

    def run(deed, reports):
        cases = "".join(f"{tool}) cat > report <<'END'\n{report}END\n;;\n" for tool, report in reports.items())
        path = tmp_path / "tool" / "compute-sanitizer"
        path.parent.mkdir()
        path.write_text(
            f"#!/bin/sh\ncase $2 in\n{cases}*) printf '{CLEAN}' > report ;;\nesac\n"
            f'while [ "$1" != {sys.executable} ]; do shift; done\nexec "$@"\n'
        )
        path.chmod(0o755)
        tmp_path.chmod(0o755)
        monkeypatch.setenv("ASSAY_COMPUTE_SANITIZER", str(path))
        (tmp_path / "work").mkdir()
        tool_runner = ToolRunner(selftest.choose(tmp_path / "work"), "none", "stand_in_device:LoneStandIn")
        settings = Settings(sizes={"n": 3000})
        made = program(deed)
        generator, checked_plan = np.random.default_rng(1), relu_plan(made)
        few = rehearsal(checked_plan.problem, plan_trials(checked_plan.problem, settings, generator))
        return sanitize(checked_plan, made, settings, NumpyRng(generator), few, Sanitizer(tool_runner))

    return run


def test_a_clean_program_goes_on_without_a_word(sanitized):
    found = sanitized("relu", {})
    assert found.verified is None
    assert found.warnings == ()


def test_a_race_decides_with_the_simulators_status(sanitized):
    found = sanitized("relu", {"racecheck": RACE})
    ruling = found.verified.ruling
    assert ruling.status is Status.INCORRECT
    assert ruling.message.startswith("In the rehearsal under compute-sanitizer (racecheck). At n=")
    assert "k: writes shared memory on line 11, and another thread of the same block reads it on line 14" in (
        ruling.message
    )
    assert "__syncthreads" in ruling.hint or "barrier" in ruling.hint
    assert found.verified.correctness.fault.kind == "race"
    assert not found.verified.correctness.passed


def test_what_an_honest_kernel_may_show_becomes_a_warning(sanitized):
    found = sanitized("relu", {"initcheck": UNWRITTEN})
    assert found.verified is None
    (warning,) = found.warnings
    assert warning.startswith("initcheck: k: thread 0 of block 31 reads")
    assert "on line 16, which was never written" in warning


def test_a_tool_that_cannot_look_hides_nothing_that_another_saw(sanitized):
    found = sanitized("relu", {"memcheck": "", "racecheck": RACE})
    assert found.verified.ruling.status is Status.INCORRECT


def test_a_tool_that_cannot_look_is_named(sanitized):
    found = sanitized("relu", {"synccheck": ""})
    assert found.verified is None
    assert [warning for warning in found.warnings if "no report" in warning] == list(found.warnings) != []


def test_that_none_could_look_is_held_against_nobody(sanitized, monkeypatch):
    monkeypatch.setattr(sanitizer, "_LIMIT_S", 1.5)
    found = sanitized("hang", dict.fromkeys(sanitizer.TOOLS, "========= COMPUTE-SANITIZER\n"))
    assert found.verified is None
    (warning,) = found.warnings
    assert "was not done after 1.5 s" in warning
