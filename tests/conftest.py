"""What the tests share: their tiers, who needs a GPU, and one toolbox, whose cache stays between runs in `.assay/`.

Every test is in one tier, and `--tier` chooses:

- `quick` (`make test`): each module, each problem, a sample of long lists; no Docker, browser, Redis, PostgreSQL;
- `rest` (`make test-all`): what needs those, whole runs, and more of every long list;
- `corpora` (`make corpora`): all that is left of the long lists, and the long forms of tests that have one.

What `make check` and `make soak` run is in none of them. Without `--tier` everything that is named runs.

`--outcomes FILE` keeps how each test ended as soon as it has, so that a run that is cut off loses nothing and another
one goes on; `--max-s` ends a run in its time.

`tests/durations.json` says what the longer tests took when they were last measured: what takes too long for a tier is
in the next one. `make test ARGS=--record-durations` (and `test-all`, `corpora`) measures again.
"""

import contextlib
import gc
import hashlib
import itertools
import json
import os
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from evaluator.backends.gpu.device.health import gpus
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import problems
from evaluator.seed import Seed
from evaluator.settings import MachineSettings

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".assay" / "tests"

# Of one parametrised test, the first and the last: with three, `make test` took half a minute more than its five.
QUICK_CASES = 2
# Most long lists compile a kernel for each case, and full verification takes a second more of each: of these three,
# but all of a list of four, whose cases were mostly chosen one by one.
REST_CASES = 3
SHORT_LIST = 4
# Seconds that a test took on two cores, by its id, where it or a case of its list took three at least: a quarter of
# the tests' time goes to fifty of two thousand, and what a test costs is not seen in its text.
DURATIONS_S = json.loads((ROOT / "tests" / "durations.json").read_text())
RECORDED_S = 3
# Most that a test of a tier may take, but for those named below: with these `make test` takes five minutes on two
# cores.
QUICK_S = 4
REST_S = 30
UNTIL_S = "ASSAY_TEST_UNTIL_S"
# Lists whose cases take milliseconds: `make test-all` takes all of what `make test` leaves, 1,100 cases in a minute.
WHOLE = (
    "tests/common/",
    "tests/evaluator/backends/gpu/tools/",
    "tests/evaluator/receipts/test_checks.py",
    "tests/evaluator/report/",
    "tests/evaluator/service/api/test_request_bounds.py",
    "tests/evaluator/stages/launch/",
    "tests/evaluator/stages/screen/",
    "tests/evaluator/stages/verify/test_comparison.py",
    "tests/trainer/config/",
    "tests/trainer/conversation/",
)

# Lists of kernels that are run in full, and the problems of which one takes from 4 to 40 s there, where one of the
# others takes 2: samples are of the others, `make corpora` takes all.
RUN_IN_FULL = (
    "tests/adversarial/wrong/",
    "tests/evaluator/backends/sim/test_kernels.py",
    "tests/kernels/right/",
)
DEAR = ("attention", "linear_gelu", "matmul", "softmax")

# Programs that `make test` does not ask for, by the fixtures and the cases that need them.
NEEDS = {"postgres", "postgres_url", "redis", "chromium", "deployment", "docker_sandbox_works"}
NEEDS_CASE = re.compile(r"\b(?:postgresql|docker)\b")

# Whole commands, services and runs, each of seconds or minutes: files, or tests in them.
LONG = (
    "tests/adversarial/sandbox/",
    "tests/adversarial/test_api_abuse.py",
    "tests/adversarial/test_attacks.py::test_an_attack_leaves_the_next_evaluation_alone",
    "tests/adversarial/test_attacks.py::test_an_attack_ends_as_it_must[activemask_elects_a_leader]",
    "tests/adversarial/test_host_tier.py::test_host_code",
    "tests/adversarial/test_hostile_bodies.py",
    "tests/assay/test_public_face.py::test_the_examples_of_the_package",
    "tests/benchmarks/",
    "tests/common/test_client.py::test_any_row_of_troubles",
    "tests/common/test_client.py::test_many_over_a_bad_road",
    "tests/e2e/",
    "tests/evaluator/backends/gpu/test_session.py",
    "tests/evaluator/backends/gpu/test_session_own_code.py",
    "tests/evaluator/backends/gpu/test_small_trials_together.py",
    "tests/evaluator/backends/sim/codegen/test_async_copies.py::test_a_barrier_that_nobody_completes",
    "tests/evaluator/backends/sim/conformance/test_forms.py::test_every_entry",
    "tests/evaluator/backends/sim/codegen/test_instructions.py::test_simulator_and_interpreter_agree",
    "tests/evaluator/backends/sim/codegen/test_control_flow.py::test_threads_that_wait_for_each_other_all_get_on",
    "tests/evaluator/backends/sim/test_hostile.py::test_whatever_is_translated_also_compiles",
    "tests/evaluator/backends/sim/test_memory.py::test_both_leave",
    "tests/evaluator/backends/sim/test_tensors.py::test_products_agree_bit_for_bit",
    "tests/evaluator/backends/sim/test_watching.py::test_nobody_accuses_what_is_ordered",
    "tests/evaluator/backends/sim/test_weak_memory.py::test_litmus_tests",
    "tests/evaluator/backends/sim/test_wide_integers.py::test_wide_integers_are_pythons",
    "tests/evaluator/cli/test_doctor.py::test_a_redis_that_is_set",
    "tests/evaluator/cli/test_doctor.py::test_a_service_that_runs",
    "tests/evaluator/cli/test_reference_option.py::test_a_verdict_on_a_problem_of_others",
    "tests/evaluator/diff/test_compare.py::test_the_command_compares_a_wrong_one",
    "tests/evaluator/foreign/test_baselines.py::test_a_baseline_is_timed_once",
    "tests/evaluator/foreign/test_baselines.py::test_a_file_that_cannot_be_read",
    "tests/evaluator/foreign/test_bfloat16.py",
    "tests/evaluator/foreign/test_leetgpu.py::test_a_challenge_is_judged",
    "tests/evaluator/foreign/test_loading.py::test_a_product_passes_and_in_tf32",
    "tests/evaluator/foreign/test_loading.py::test_parameters_are_inputs",
    "tests/evaluator/foreign/test_loading.py::test_right_at_other_sizes",
    "tests/evaluator/foreign/test_bad_references.py::test_what_each_form",
    "tests/evaluator/foreign/test_bad_references.py::test_what_writes_files",
    "tests/evaluator/foreign/test_tensara.py::test_a_problem_is_judged",
    "tests/evaluator/foreign/test_tensara.py::test_the_commands",
    "tests/evaluator/foreign/test_trace.py::test_a_definition_is_judged",
    "tests/evaluator/foreign/test_trace.py::test_the_commands",
    "tests/evaluator/foreign/test_zygote.py",
    "tests/evaluator/pipeline/gpu/test_gpu_server.py::test_a_referee_that_cannot_start",
    "tests/evaluator/pipeline/gpu/test_gpu_server.py::test_a_right_kernel_is_verified_timed",
    "tests/evaluator/pipeline/gpu/test_host_referee.py",
    "tests/evaluator/pipeline/gpu/test_referee_endings.py",
    "tests/evaluator/pipeline/gpu/test_referee_references.py",
    "tests/evaluator/pipeline/gpu/test_referee_start.py",
    "tests/evaluator/pipeline/test_killed_from_outside.py",
    "tests/evaluator/pipeline/test_pipeline.py::test_the_time_limit_holds",
    "tests/evaluator/pipeline/test_reproduce.py",
    "tests/evaluator/report/test_html.py::test_a_long_source",
    "tests/evaluator/report/test_html.py::test_a_real_browser",
    "tests/evaluator/sandbox/",
    "tests/evaluator/service/api/test_api.py::test_a_database_that_fails",
    "tests/evaluator/service/api/test_api.py::test_lists_that_wait",
    "tests/evaluator/service/storage/test_migrations.py::test_many_processes",
    "tests/evaluator/service/storage/test_storage_machine.py",
    "tests/evaluator/service/storage/test_storage_processes.py",
    "tests/evaluator/service/test_connections.py",
    "tests/evaluator/service/test_server.py",
    "tests/evaluator/service/workers/",
    "tests/evaluator/stages/compile/test_nvcc.py::test_a_bomb_ends_in_time",
    "tests/evaluator/stages/compile/test_nvcc.py::test_eight_processes_compile_once",
    "tests/evaluator/stages/profile/test_pitfalls.py::test_well_tuned",
    "tests/evaluator/stages/profile/test_sampled_counters.py::test_work_left_out",
    "tests/evaluator/stages/screen/test_screening.py::test_a_mebibyte_of_anything",
    "tests/evaluator/stages/time/test_sample_pool.py::test_processes_lose_nothing",
    "tests/evaluator/stages/time/test_statistics.py::test_the_interval_covers",
    "tests/evaluator/stages/verify/test_reproduction.py::test_a_program_compiles",
    "tests/evaluator/stages/verify/test_shrinking.py",
    "tests/evaluator/stages/verify/large/test_large_trials.py::test_where_all_of_it_takes_too_long",
    "tests/evaluator/stages/verify/test_verification.py::test_a_race_that_spoils_a_large_run",
    "tests/evaluator/stages/verify/test_verification.py::test_the_time_limit",
    "tests/evaluator/test_disk_cache.py::test_many_processes",
    "tests/soak/",
    "tests/trainer/cli/test_assay_train.py",
    "tests/trainer/cli/test_evaluate_command.py::test_a_kernelbench_folder",
    "tests/trainer/cli/test_evaluate_command.py::test_an_evaluation_that_is_killed",
    "tests/trainer/cli/test_evaluate_command.py::test_scripts_are_played",
    "tests/trainer/cli/test_launcher.py::test_a_run_begins_with_the_models",
    "tests/trainer/cli/test_launcher.py::test_data_is_collected_by_a_command",
    "tests/trainer/conversation/test_episode.py::test_a_whole_episode",
    "tests/trainer/conversation/test_episode.py::test_an_evaluator_that_is_killed",
    "tests/trainer/conversation/test_extraction.py::test_hostile_text_costs_time",
    "tests/trainer/data/test_corpus.py::test_the_examples_end_as_they_say",
    "tests/trainer/data/test_operations.py::test_kernels_of_operations_end_as_they_say",
    "tests/trainer/policies/",
    "tests/trainer/tuning/test_collection.py::test_a_collection_that_is_killed_goes_on",
    "tests/trainer/tuning/test_publishing.py::test_verl_reads",
    "tests/trainer/tuning/test_collection.py::test_kernels_have_the_verdict_of_a_real_service",
    "tests/trainer/tuning/test_phases.py",
    "tests/trainer/reporting/test_run_metrics.py::test_tensorboard_and_wandb",
    "tests/trainer/reporting/test_transcript_page.py::test_in_a_browser",
    "tests/trainer/rl/test_algorithms.py",
    "tests/trainer/rl/test_patches.py::test_a_process_that_imports_verl",
    "tests/trainer/rl/test_processes.py::test_an_embedded_evaluator",
    "tests/trainer/rl/test_processes.py::test_two_nodes",
    "tests/trainer/rl/test_ray_session.py",
    "tests/trainer/rl/test_rollout.py",
    "tests/trainer/rl/test_runner.py",
    "tests/trainer/rl/test_servers.py",
    "tests/trainer/rl/test_verl_settings.py",
    "tests/trainer/rl/test_vllm_servers.py",
)
# What `make check` runs, and what `make soak` does at length.
ELSEWHERE = (
    "tests/soak/test_nothing_lost.py",
    "tests/test_architecture.py",
    "tests/test_house.py",
)
# Tests that are longer where ASSAY_TEST_EVERYTHING is set, as `make corpora` does.
LONGER_FORMS = (
    "tests/adversarial/test_api_abuse.py",
    "tests/evaluator/backends/sim/test_hostile.py::test_whatever_is_translated_also_compiles",
    "tests/trainer/data/test_corpus.py::test_the_examples_end_as_they_say",
)
# Of what is long, what `make test` takes all the same: one of each kind.
QUICK = (
    "tests/evaluator/backends/gpu/test_session.py::test_a_write_outside_is_found_and_named",
    "tests/evaluator/foreign/test_zygote.py::test_what_stays_in_memory",
    "tests/evaluator/sandbox/test_cancellation.py",
    "tests/evaluator/sandbox/test_selftest.py",
    "tests/evaluator/service/workers/test_supervisor.py",
    "tests/evaluator/service/workers/test_sweeper.py",
    "tests/evaluator/service/workers/test_task.py",
    "tests/evaluator/stages/verify/test_shrinking.py::test_a_fault_is_found_where_it_begins[from 33 on]",
    "tests/trainer/policies/test_models.py",
    "tests/trainer/rl/test_verl_settings.py::test_a_key_that_verl_does_not_have_is_refused",
)
# Of what takes longer than that, what `make test-all` takes all the same: what no shorter test shows.
REST = (
    "tests/e2e/test_compose.py::test_a_kernel_is_graded_in_containers",
    "tests/e2e/test_compose.py::test_the_trainer_reaches",
    "tests/e2e/test_installed.py",
    "tests/e2e/test_remote.py::test_a_service_that_is_killed",
    "tests/evaluator/service/test_connections.py",
    "tests/evaluator/service/test_server.py",
    "tests/trainer/conversation/test_episode.py::test_an_evaluator_that_is_killed",
    "tests/trainer/rl/test_algorithms.py",
    "tests/trainer/rl/test_runner.py",
)
# The longest come first, each list in its order by a process of its own: at the end nothing would be left to run
# beside them. The first list takes whole processors, so no two of it run at once; the second mostly waits.
FIRST = (
    (
        "tests/trainer/rl/test_algorithms.py",
        "tests/trainer/rl/test_runner.py",
        "tests/trainer/data/test_corpus.py",
    ),
    (
        "tests/e2e/test_installed.py",
        "tests/e2e/test_compose.py",
        "tests/evaluator/service/test_server.py",
        "tests/evaluator/service/test_connections.py",
        "tests/soak/",
    ),
)


# By default an example that takes 0.2 s fails its property, as any may on a busy machine. What bounds a time says so.
hypothesis.settings.register_profile("assay", deadline=None)
hypothesis.settings.load_profile("assay")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--tier`: which of the tests to run. `--outcomes`, `--max-s`: of a run that may be cut off."""
    parser.addoption(
        "--outcomes", type=Path, metavar="FILE", help="add how each test ends; skip what has passed by it"
    )
    parser.addoption("--max-s", type=float, help="skip what has not begun after so many seconds")
    parser.addoption("--tier", choices=("quick", "rest", "corpora"), help="which of the tests to run; else all")
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.json again")


def pytest_configure(config: pytest.Config) -> None:
    """Make the cache, which many tests link into data folders of their own; let PyTorch have one thread, and Ctrl-C
    arrive.

    Nothing is kept behind a link to a folder that is not there, and each of them would build the simulator anew.
    """
    (DATA / "cache").mkdir(parents=True, exist_ok=True)
    # Several processes test beside each other: where one has a thread for every processor, they spin for one another.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Ignored where a shell started the tests in its background; what the tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcomes = config.getoption("--outcomes")
    if outcomes is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(outcomes))
    max_s = config.getoption("--max-s")
    if max_s is not None and not hasattr(config, "workerinput"):
        os.environ[UNTIL_S] = str(time.time() + max_s)  # of the processes that this one starts as well


def passed_before(outcomes: Path | None) -> set[str]:
    """The tests that passed, by what `--outcomes` kept of earlier runs; a line that was cut off is none."""
    passed: set[str] = set()
    for line in outcomes.read_text().splitlines() if outcomes is not None and outcomes.exists() else ():
        with contextlib.suppress(ValueError):
            end = json.loads(line)
            (passed.add if end["outcome"] == "passed" else passed.discard)(end["test"])
    return passed


class Outcomes:
    """Adds how tests end to a file: in the process that all of them report to, and each with what it says."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One line of JSON for each test, and another one where its fixtures fail."""
        if report.failed or (report.when == "call" and report.passed):
            end = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 2)}
            end |= {"when": report.when, "why": report.longreprtext[-4000:] if report.failed else ""}
            with self._file.open("a") as file:
                file.write(json.dumps(end) + "\n")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin nothing once the time is up."""
    if time.time() > float(os.environ.get(UNTIL_S, "inf")):
        pytest.skip("the time is up")


def spread(count: int, wanted: int) -> set[int]:
    """At most `wanted` of the numbers below `count`, evenly spread, the first and the last among them."""
    if count <= wanted:
        return set(range(count))
    return {round(i * (count - 1) / (wanted - 1)) for i in range(wanted)}


def one_of_each_problem(ids: list[str]) -> set[str]:
    """One case of each problem, by the name of the case's file (`softmax_online`): the first without headers."""
    names = sorted(problems(), key=len, reverse=True)
    chosen: dict[str, str] = {}
    for needs_headers in (False, True):
        for nodeid in ids:
            case = nodeid.partition("[")[2].removesuffix("]")
            if ("#include" in (ROOT / "tests" / "kernels" / f"{case}.cu").read_text()) is needs_headers:
                chosen.setdefault(next((name for name in names if case.startswith(name)), ""), nodeid)
    return set(chosen.values())


def within(ids: list[str], most_s: float, kept: tuple[str, ...]) -> list[str]:
    """Those that take at most so many seconds, and those that are kept all the same.

    A case that was never measured is taken for the quickest of its list that was.
    """
    known = [DURATIONS_S[nodeid] for nodeid in ids if nodeid in DURATIONS_S]
    likely_s = min(known, default=0)
    return [nodeid for nodeid in ids if DURATIONS_S.get(nodeid, likely_s) <= most_s or nodeid.startswith(kept)]


def sample(ids: list[str], wanted: int) -> set[str]:
    """At most `wanted` of the cases of a test: of kernels that are run in full, cheap ones."""
    if ids and ids[0].startswith(RUN_IN_FULL):
        ids = [nodeid for nodeid in ids if not nodeid.partition("[")[2].startswith(DEAR)] or ids
    return {ids[place] for place in spread(len(ids), wanted)}


def tiers(items: list[pytest.Item]) -> dict[str, str]:
    """The tier of each test, by its id."""
    lists: dict[str, list[str]] = defaultdict(list)
    for item in items:
        lists[item.nodeid.split("[")[0]].append(item.nodeid)
    found: dict[str, str] = {}
    for test, ids in lists.items():
        whole = (test.startswith(WHOLE) and not test.startswith(LONG)) or len(ids) <= SHORT_LIST
        quick = sample(within(ids, QUICK_S, QUICK), QUICK_CASES)
        rest = sample(within(ids, REST_S, REST), len(ids) if whole else REST_CASES)
        if test.startswith("tests/kernels/test_honest.py") and len(ids) > len(problems()):
            quick |= one_of_each_problem(ids)
        found |= {nodeid: "quick" if nodeid in quick else "rest" if nodeid in rest else "corpora" for nodeid in ids}
    for item in items:
        needs = NEEDS & set(getattr(item, "fixturenames", ())) or NEEDS_CASE.search(item.nodeid.partition("[")[2])
        long = item.nodeid.startswith(LONG) and not item.nodeid.startswith(QUICK)
        if found[item.nodeid] == "quick" and (needs or long):
            found[item.nodeid] = "rest"
        if item.nodeid.startswith(ELSEWHERE):
            found[item.nodeid] = "elsewhere"
    return found


def shared_out(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests in an order of which each process begins with its list of `FIRST`.

    xdist's `worksteal` gives each of them one stretch of all tests to begin with, the same length for each.
    """
    lists = [[item for file in files for item in items if item.nodeid.startswith(file)] for files in FIRST]
    first = set(itertools.chain.from_iterable(lists))
    others = [item for item in items if item not in first]
    shared: list[pytest.Item] = []
    for left in range(processes, 0, -1):
        own = [lists.pop(0) for _ in range(len(lists) if left == 1 else min(len(lists), 1))]
        waiting = [*itertools.chain.from_iterable(own), *others]
        length = (len(items) - len(shared)) // left
        shared += waiting[:length]
        others = waiting[length:]
    return shared


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while tests are collected, nor ever in what is there then: of 17,000 tests and the modules
    that they import nothing is freed, and to look through all of it again and again is half of what collecting takes
    each process of a test run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of which the tier wants nothing: every process of a test run would import them."""
    tier, file = config.getoption("--tier"), collection_path.relative_to(ROOT).as_posix()
    if tier is None or collection_path.suffix != ".py":
        return None
    long = file.startswith(LONG) and not any(wanted.startswith(file) for wanted in QUICK)
    return True if file in ELSEWHERE or (tier == "quick" and long) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tier. Tests marked `gpu` run where a driver lists a GPU, in order or not."""
    if tier := config.getoption("--tier"):
        of = tiers(items)
        longer = LONGER_FORMS if tier == "corpora" else ()
        chosen = [item for item in items if of[item.nodeid] == tier or item.nodeid.startswith(longer)]
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen
    items[:] = shared_out(items, getattr(config, "workerinput", {"workercount": 1})["workercount"])
    # Skipped and not left out: processes that collect at different times must all collect the same.
    passed = passed_before(config.getoption("--outcomes"))
    for item in items:
        if item.nodeid in passed:
            item.add_marker(pytest.mark.skip(reason="it has passed"))
    if not gpus():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="there is no NVIDIA GPU here"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Keep what the tests that ran took, with what is known of the others."""
    if not config.getoption("--record-durations"):
        return
    took: dict[str, float] = defaultdict(float)
    for report in itertools.chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            took[report.nodeid] += report.duration
    known = {nodeid: seconds for nodeid, seconds in DURATIONS_S.items() if nodeid not in took}
    # With one case of a list its others too, which it says something about.
    long = {nodeid.split("[")[0] for nodeid, seconds in took.items() if seconds >= RECORDED_S}
    known |= {nodeid: round(seconds) for nodeid, seconds in took.items() if nodeid.split("[")[0] in long}
    text = json.dumps(known, indent=1, sort_keys=True)
    (ROOT / "tests" / "durations.json").write_text(f"{text}\n")


@pytest.fixture(scope="session")
def toolbox() -> Toolbox:
    """The real thing: toolchain, sandbox, cache and simulator of this machine."""
    return Toolbox(MachineSettings(DATA))


@pytest.fixture(autouse=True)
def seeds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the secret seeds of a test's evaluations follow from its name, so that what fails fails again.

    ASSAY_TEST_SEED=N gives others. With ASSAY_TEST_EVERYTHING, as `make corpora` has it, every run draws its own.
    """
    if "ASSAY_TEST_EVERYTHING" in os.environ:
        return
    start = f"{os.environ.get('ASSAY_TEST_SEED', '0')} {request.node.nodeid}"
    secrets = (hashlib.sha256(f"{start} {number}".encode()).digest() for number in itertools.count())
    monkeypatch.setattr(Seed, "fresh", staticmethod(lambda: Seed(next(secrets))))
