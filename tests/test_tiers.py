"""Each test is in one tier, whatever is added; what the lists of long tests name is there."""

import importlib.util
import itertools
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdist.scheduler import WorkStealingScheduling

ROOT = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location("tiers_of_tests", ROOT / "tests/conftest.py")
RULES = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(RULES)


class Item:
    """All that the rules ask of a test."""

    def __init__(self, nodeid, fixturenames=()):
        self.nodeid, self.fixturenames = nodeid, fixturenames


@given(count=st.integers(1, 500), wanted=st.integers(2, 50))
def test_cases_are_spread_evenly_from_the_first_to_the_last(count, wanted):
    chosen = sorted(RULES.spread(count, wanted))
    assert len(chosen) == min(count, wanted)
    assert (chosen[0], chosen[-1]) == (0, count - 1)
    steps = {b - a for a, b in itertools.pairwise(chosen)}
    assert len(steps) <= 2
    assert max(steps, default=1) - min(steps, default=1) <= 1


@given(st.lists(st.integers(1, 200), min_size=1, max_size=5))
def test_of_every_list_some_cases_come_first_and_each_case_is_in_one_tier(lengths):
    items = [
        Item(f"tests/evaluator/test_x.py::test_{n}[{i}]") for n, length in enumerate(lengths) for i in range(length)
    ]
    tiers = RULES.tiers(items)
    assert set(tiers) == {item.nodeid for item in items}
    for n, length in enumerate(lengths):
        of = [tiers[f"tests/evaluator/test_x.py::test_{n}[{i}]"] for i in range(length)]
        assert of.count("quick") == min(length, RULES.QUICK_CASES)
        assert of.count("quick") + of.count("rest") >= min(length, RULES.REST_CASES)
        assert set(of) <= {"quick", "rest", "corpora"}


def test_of_lists_of_cheap_cases_nothing_is_left_for_the_corpora():
    items = [Item(f"tests/common/test_x.py::test_many[{i}]") for i in range(100)]
    tiers = list(RULES.tiers(items).values())
    assert (tiers.count("quick"), tiers.count("rest")) == (RULES.QUICK_CASES, 100 - RULES.QUICK_CASES)


def test_what_takes_long_is_in_a_later_tier_and_samples_are_of_the_others(monkeypatch):
    items = [Item(f"tests/evaluator/test_x.py::test_many[{i}]") for i in range(9)]
    alone = [Item("tests/evaluator/test_x.py::test_slow"), Item("tests/evaluator/test_x.py::test_slower")]
    slow, slower = RULES.QUICK_S + 1, RULES.REST_S + 1
    known = {items[0].nodeid: slow, items[3].nodeid: 1, items[8].nodeid: slower}
    known |= {alone[0].nodeid: slow, alone[1].nodeid: slower}
    monkeypatch.setattr(RULES, "DURATIONS_S", known)
    tiers = RULES.tiers(items + alone)
    assert [tiers[item.nodeid] for item in alone] == ["rest", "corpora"]
    assert [tiers[items[i].nodeid] for i in (1, 8)] == ["quick", "corpora"]
    assert tiers[items[0].nodeid] == "rest"
    monkeypatch.setattr(RULES, "DURATIONS_S", {items[3].nodeid: slow})
    assert "quick" not in RULES.tiers(items).values(), "of the others nothing better is known"
    monkeypatch.setattr(RULES, "DURATIONS_S", known)
    monkeypatch.setattr(RULES, "REST", (alone[1].nodeid,))
    assert RULES.tiers(alone)[alone[1].nodeid] == "rest"


class Process:
    """All that xdist asks of one that runs tests: it takes what it is given."""

    shutting_down, gateway = False, SimpleNamespace(id="gw")

    def __init__(self):
        self.given = []

    def send_runtest_some(self, places):
        self.given += places


@given(count=st.integers(4, 60), processes=st.integers(1, 5), longest=st.integers(0, 3))
def test_each_list_of_long_tests_is_begun_by_a_process_of_its_own(count, processes, longest):
    lists = [[f"{file}::test_{n}" for file in files for n in range(longest)] for files in RULES.FIRST]
    first = list(itertools.chain.from_iterable(lists))
    others = [f"tests/evaluator/test_x.py::test_{n}" for n in range(count * processes)]
    wanted = RULES.shared_out([Item(name) for name in sorted(others + first)], processes)
    names = [item.nodeid for item in wanted]
    assert sorted(names) == sorted(others + first)
    scheduling = WorkStealingScheduling(SimpleNamespace(getvalue=lambda _: ["popen"] * processes))
    running = [Process() for _ in range(processes)]
    for process in running:
        scheduling.add_node(process)
        scheduling.add_node_collection(process, names)
    scheduling.schedule()
    begun = [[names[place] for place in process.given] for process in running]
    together = [first] if processes == 1 else lists
    for own, taken in zip(together, begun, strict=False):
        # What is more than a stretch of all tests is what the next ones begin with, behind their own.
        assert taken[: len(own)] == own[: len(taken)]


def test_durations_are_those_of_tests_that_are_there():
    """An entry of a test that was renamed would let the new one into the first tier."""
    for nodeid in RULES.DURATIONS_S:
        path, _, test = nodeid.partition("[")[0].partition("::")
        text, name = (ROOT / path).read_text(encoding="utf-8"), test.rpartition("::")[2]
        assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), nodeid


@pytest.mark.parametrize("start", RULES.RUN_IN_FULL)
def test_samples_of_kernels_that_are_run_in_full_are_cheap_and_the_corpora_take_the_dear_ones(start):
    names = [f"{problem}_{n}" for problem in sorted(RULES.problems()) for n in range(20)]
    tiers = RULES.tiers([Item(f"{start}::test_a[{name}]") for name in names])
    dear = {tier for nodeid, tier in tiers.items() if nodeid.partition("[")[2].startswith(RULES.DEAR)}
    assert dear == {"corpora"}
    assert list(tiers.values()).count("quick") == RULES.QUICK_CASES
    assert list(tiers.values()).count("rest") >= RULES.REST_CASES - RULES.QUICK_CASES
    (alone,) = RULES.tiers([Item(f"{start}::test_a[attention_1]")]).values()
    assert alone == "quick"


def test_what_needs_a_program_that_may_be_missing_is_in_the_rest():
    tiers = RULES.tiers([Item("tests/common/test_x.py::test_a", ("postgres",)), Item("t.py::test_b[postgresql]")])
    assert set(tiers.values()) == {"rest"}


def test_one_honest_kernel_of_each_problem_comes_first():
    kernels = sorted(path.stem for path in (ROOT / "tests/kernels").glob("*.cu"))
    items = [Item(f"tests/kernels/test_honest.py::test_an_honest_kernel_passes[{name}]") for name in kernels]
    tiers = RULES.tiers(items)
    quick = [nodeid.partition("[")[2] for nodeid, tier in tiers.items() if tier == "quick"]
    assert all(any(name.startswith(problem) for name in quick) for problem in RULES.problems())


@pytest.mark.parametrize("name", ["LONG", "QUICK", "REST", "RUN_IN_FULL", "FIRST", "ELSEWHERE", "LONGER_FORMS"])
def test_what_a_list_names_is_there(name):
    named = getattr(RULES, name)
    for entry in itertools.chain.from_iterable(named) if name == "FIRST" else named:
        path, _, test = entry.partition("[")[0].partition("::")
        assert (ROOT / path).exists(), entry
        if test:
            assert re.search(rf"^(?:async )?def {test}", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), (
                entry
            )
