"""The GPU benchmarks' own logic: their flow on the simulator, their statistics on samples whose truth is known."""

import json
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from benchmarks._support import one_gpu
from benchmarks._support.graders import Graders, Task
from benchmarks._support.kernel_variants import bad, honest
from benchmarks.gpu import example_kernels_speed, gpu_corpus, several_gpus, timing_repeatability
from benchmarks.gpu.kernelbench_way import declaration, host_code
from common.contract import DeviceState
from evaluator.backends.gpu.device import health
from evaluator.backends.gpu.device.health import Gpu
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem, problems
from evaluator.settings import MachineSettings
from evaluator.stages.compile.toolchain import find_toolchain
from evaluator.stages.time.statistics import Measurement, summarise

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def timing(generator, latency_us=50.0, baseline_us=60.0, noise=0.01, launches=100, shift=1.0):
    """What a verdict says about launches with this noise; `shift` moves the whole evaluation."""
    event = shift * latency_us * generator.lognormal(0, noise, launches)
    measurement = Measurement(
        sizes={"n": 1 << 24},
        event_us=tuple(event),
        host_us=tuple(event + 9),
        referee_us=tuple(event + 250),
        baseline_us=tuple(baseline_us * generator.lognormal(0, noise, launches)),
        gap_us=8.5,
        compared_with="PyTorch 2.11.0 eager: torch.relu(x)",
        device=DeviceState(name="NVIDIA H200"),
    )
    return summarise(measurement)


# --- graders, and KernelBench's way ------------------------------------------------------------------------------


def test_graders_that_do_not_answer_are_given_up(monkeypatch):
    monkeypatch.setattr("benchmarks._support.graders._GRACE_S", 0.01)
    hanging = bad(3)[2]
    with Graders(1, "sim") as graders:
        started_s = time.monotonic()  # its process is there: how long that took says nothing
        with pytest.raises(TimeoutError):
            list(graders.grade([Task(hanging.name, hanging.problem, hanging.source)], time.monotonic() + 0.01))
    assert time.monotonic() - started_s < 25


_TORCH = """\
#include <initializer_list>
namespace torch {
struct Tensor {
    int options() const { return 0; }
    template <class T> T* data_ptr() const { return nullptr; }
};
inline Tensor empty(std::initializer_list<long long>, int) { return {}; }
}
"""


def test_what_kernelbench_would_build_compiles(tmp_path):
    """Against the few names of torch that it uses, since torch's own headers take half a minute."""
    first = {variant.problem: variant for variant in reversed(honest())}
    parts = [_TORCH]
    for name, variant in first.items():
        problem = find_problem(name)
        parts.append(f"namespace {name}_ {{\n{host_code(problem, variant.source)}\n{declaration(problem)}\n}}")
    (tmp_path / "all.cu").write_text("\n".join(parts))
    command = [find_toolchain().nvcc, "-cuda", "-std=c++17", "-arch=sm_80", "all.cu", "-o", "all.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)


# --- repeatability ------------------------------------------------------------------------------------------------


def test_the_spread_and_coverage_of_honest_evaluations():
    generator = np.random.default_rng(7)
    found = timing_repeatability.repeatability([timing(generator) for _ in range(60)])
    # The median of 100 draws spreads by 1.25 sigma / sqrt(100).
    assert found["latency_cv"] == pytest.approx(0.00125, rel=0.35)
    assert found["speedup_cv"] == pytest.approx(0.00125 * 2**0.5, rel=0.35)
    assert found["speedup"] == pytest.approx(1.2, rel=0.002)
    assert found["coverage"] >= 0.9


def test_evaluations_that_differ_by_more_than_their_intervals_say_so():
    generator = np.random.default_rng(8)
    found = timing_repeatability.repeatability(
        [timing(generator, shift=shift) for shift in generator.normal(1, 0.02, 60)]
    )
    assert found["latency_cv"] == pytest.approx(0.02, rel=0.35)
    assert found["coverage"] < 0.5


def test_the_worst_is_of_kernels_that_are_not_short():
    generator = np.random.default_rng(9)
    timings = {
        "short": [timing(generator, latency_us=4, noise=0.3) for _ in range(10)],
        "long": [timing(generator) for _ in range(10)],
        "seldom": [timing(generator)],
    }
    figures = {
        **timing_repeatability.figures_of("idle", timings),
        **timing_repeatability.figures_of("busy", {"long": [timing(generator, latency_us=55) for _ in range(10)]}),
    }
    assert figures["idle_worst_latency_cv"] == figures["idle_long_latency_cv"] < figures["idle_short_latency_cv"]
    assert figures["idle_evaluations"] == 20
    assert timing_repeatability.shift(figures)["worst_shift_when_busy"] == pytest.approx(0.1, abs=0.01)
    assert timing_repeatability.figures_of("idle", {"none": []}) == {}


def test_six_kernels_are_timed_alone():
    tasks = timing_repeatability.tasks()
    assert len(tasks) == 6
    assert all(task.alone for task in tasks)


# --- our kernels against PyTorch ----------------------------------------------------------------------------------


def test_the_picture_shows_every_problem_inside_its_frame():
    generator = np.random.default_rng(10)
    tasks = example_kernels_speed.tasks()
    assert len(tasks) == 2 * len(problems())
    timings = {
        task.name: timing(generator, latency_us=60 / 2 ** generator.uniform(-5, 2), launches=10) for task in tasks
    }
    drawn = example_kernels_speed.picture(timings, "NVIDIA H200 <1>")
    root = ElementTree.fromstring(drawn)
    _, _, width, height = (float(number) for number in root.attrib["viewBox"].split())
    circles = root.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2 + 2 * len(problems())
    assert all(0 < float(c.attrib["cx"]) < width and 0 < float(c.attrib["cy"]) < height for c in circles)
    said = {title.text for title in root.findall(".//{http://www.w3.org/2000/svg}title")}
    assert all(any(text.startswith(f"{problem}: naive ") for text in said) for problem in problems())
    assert "prefers-color-scheme: dark" in drawn
    assert not re.search(r"nan|None", drawn)
    assert example_kernels_speed.picture({}, "") == ""


def test_what_a_time_limit_left_out_is_left_out(tmp_path, monkeypatch):
    generator = np.random.default_rng(11)
    monkeypatch.setattr("benchmarks._support.record.RESULTS", tmp_path)
    timings = {"relu/fast": timing(generator), "gelu/naive": timing(generator, latency_us=120)}
    example_kernels_speed.keep(timings, "NVIDIA H200", [], quiet=True)
    saved = json.loads((tmp_path / "example_kernels_speed.json").read_text())
    assert saved["figures"]["timed"] == 2
    assert saved["figures"]["relu_fast_speedup"] == pytest.approx(1.2, rel=0.01)
    assert saved["figures"]["fast_at_least_pytorch"] == 1
    assert (tmp_path / "example_kernels_speed.svg").read_text().count("<circle") == 4
    assert example_kernels_speed.table_of(timings).row_count == 2


def test_what_a_short_time_has_no_use_for_is_not_built(tmp_path, monkeypatch):
    """All files at once took more than a minute of sixteen cores, of which a call of two minutes used a sixth."""
    # Late: it imports a file of tests, which pytest is to have read first.
    from benchmarks.gpu import lifted_and_built

    prepared, called = [], []
    monkeypatch.setattr(lifted_and_built.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(lifted_and_built, "_PART_S", 0.0)
    monkeypatch.setattr(lifted_and_built, "_CALLS_S", 0.0)
    monkeypatch.setattr(lifted_and_built, "_CALL_S", 0.01)

    def prepare(case, *more):
        prepared.append(case[0])
        return {"name": case[0], "build_s": 1.0}

    def lifted(source, toolbox):
        if source == "slow":
            toolbox.cancel_token.wait(60)
        return {"status": "passed"}

    def built(tasks, *more):
        called.extend(task["name"] for task in tasks)
        yield from ({"name": task["name"], "right": True} for task in tasks)

    monkeypatch.setattr(lifted_and_built, "_prepare", prepare)
    monkeypatch.setattr(lifted_and_built, "_lifted_verdict", lifted)
    monkeypatch.setattr(lifted_and_built, "_built_results", built)
    cases = [(f"file {number}", "slow" if number == 2 else "quick", True) for number in range(9)]
    rows = lifted_and_built.Rows(tmp_path / "rows.jsonl")
    toolbox = Toolbox(MachineSettings(tmp_path))
    lifted_and_built._measure(cases, rows, toolbox, "sm_90", tmp_path, time.monotonic() + 1.0)
    assert sorted(prepared) == [f"file {number}" for number in range(4)]
    assert called == ["file 0", "file 1"]
    assert all(row["built"]["right"] for row in lifted_and_built.Rows(tmp_path / "rows.jsonl").rows.values())


@pytest.fixture
def large_gpu(monkeypatch):
    """A machine with a GPU that has room for several referees, which it has by default."""
    found = Gpu(0, "GPU-0", "NVIDIA H200", "sm_90", 140 << 30, 139 << 30, "1.0", (13, 0), None, "default", None)
    monkeypatch.delenv("ASSAY_GPU", raising=False)
    monkeypatch.setattr(health, "why_not", lambda: None)
    for module in (health, one_gpu):
        monkeypatch.setattr(module, "gpus", lambda: (found,))
    return found


def test_what_is_about_one_referee_has_one_on_a_gpu_that_has_several_by_default(large_gpu, tmp_path):
    assert Toolbox(MachineSettings(tmp_path, gpu=one_gpu.one_gpu())).referee_count > 1
    toolbox = Toolbox(one_gpu.with_one_referee(tmp_path, host_tier="on", jobs_per_runner=32))
    assert one_gpu.referee_of(toolbox).uuid == large_gpu.uuid
    assert (toolbox.settings.host_tier, toolbox.settings.jobs_per_runner) == ("on", 32)
    assert Toolbox(Graders(1, "gpu").settings).referee_count == 1
    with pytest.raises(LookupError, match="one GPU with one referee"):
        one_gpu.referee_of(Toolbox(MachineSettings(tmp_path, referees_per_gpu=2)))


def test_the_corpus_is_graded_by_one_referee_of_each_kind_and_both_end(large_gpu, tmp_path, monkeypatch):
    started, graded = [], []

    def facts(referee):
        process = subprocess.Popen(["sleep", "60"])
        started.append((referee._settings.jobs_per_runner, process))
        return {"pid": process.pid}

    def grade_all(found, settings, arch, *more):
        graded.append((arch, {name: Toolbox(chosen).referee_count for name, chosen in settings.items()}))

    monkeypatch.setattr(GpuReferee, "facts", facts)
    monkeypatch.setattr(gpu_corpus, "_grade_all", grade_all)
    try:
        found = gpu_corpus._run(time.monotonic() + 60, 1, {}, None)
        assert graded == [("sm_90a", {"single": 1, "reused": 1})]
        assert [jobs for jobs, _ in started] == [1, 32]
        assert [process.wait(30) for _, process in started] == [-signal.SIGTERM] * 2
        assert "H200" in found["device"]
    finally:
        for _, process in started:
            process.kill()


def test_what_a_busy_machine_could_not_simulate_is_simulated_again(tmp_path):
    ends = {"a": "passed", "b": "internal_error", "c": "incorrect"}
    rows = {name: {"status": status} for name, status in ends.items()}
    (tmp_path / "sim.json").write_text(json.dumps(rows))
    assert gpu_corpus._simulated_before(tmp_path / "sim.json").keys() == {"a", "c"}


def test_figures_made_on_another_machine_keep_the_one_that_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks._support.record.RESULTS", tmp_path)
    measured = {"device": "NVIDIA H200, driver 1, Some Processor 9, Linux", "versions": {"assay": "0.0.1"}}
    given = dict.fromkeys(("gpus", "cores", "workers", "clients", "referees_per_gpu", "wrong_verdicts"), 1.0)
    given |= {f"{each}_{name}": 2.0 for each in several_gpus.PASSES for name in several_gpus.KEPT}
    for way in several_gpus.WAYS:
        (tmp_path / way).mkdir()
        record = measured | {"figures": given, "command": way, "details": {"wrong": []}}
        (tmp_path / way / "throughput.json").write_text(json.dumps(record))
    several_gpus.saved(tmp_path)
    saved = json.loads((tmp_path / "several_gpus.json").read_text())
    assert saved["device"] == measured["device"]
    assert saved["versions"]["assay"] == "0.0.1"
    assert saved["figures"]["coarse_cold_over_one"] == 1.0
