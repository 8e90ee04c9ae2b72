"""The comparison of estimates with a GPU's clock: on pairs whose figures are known, and on the committed times."""

import hashlib
import json
import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks.simulator.estimate_vs_gpu import MEASURED, Pair, figures_of, held_out, pairs_of, picture, subjects
from common.contract.counters import Estimate
from evaluator.problems.catalogue import problems
from evaluator.stages.profile.naive_counters import naive_counts


def estimated(time_us):
    return Estimate(gpu="H200", sizes={"n": 1}, latency_us=time_us, floor_us=0.0, launches=())


def pairs(factor):
    return [Pair(one, 10.0 + number, estimated(factor(10.0 + number))) for number, one in enumerate(subjects())]


def test_estimates_that_are_all_twice_too_long_are_in_the_right_order():
    figures = figures_of(pairs(lambda time_us: 2 * time_us))
    assert figures["held_out_spearman"] == pytest.approx(1)
    assert figures["all_kendall"] == pytest.approx(1)
    assert figures["worst_within_problem_spearman"] == pytest.approx(1)
    assert figures["all_median_factor"] == pytest.approx(2)
    assert figures["all_speedup_median_factor"] == pytest.approx(1)
    assert figures["within_twice"] == 1


def test_estimates_the_wrong_way_round_are_seen():
    figures = figures_of(pairs(lambda time_us: 1000 / time_us))
    assert figures["fitted_spearman"] == figures["median_within_problem_spearman"] == pytest.approx(-1)


def test_half_of_the_problems_are_held_out_and_every_one_has_its_naive_kernel_at_two_sizes():
    assert len(held_out()) == len(problems()) // 2
    naive = [one for one in subjects() if one.kernel.startswith("naive/")]
    assert len(naive) == 2 * len(problems())
    assert len(subjects()) >= 60


def test_the_naive_kernels_are_estimated_near_their_measured_times():
    measured = json.loads(MEASURED.read_text())
    naive = [one for one in subjects() if one.kernel.startswith("naive/")]
    kept = {one.name: naive_counts(problems()[one.problem], one.sizes) for one in naive}
    counts = {name: count.model_dump(mode="json") for name, count in kept.items() if count is not None}
    found = pairs_of(measured, counts, subjects())
    assert len(found) == len(problems())
    # One thread that adds up 4 million elements waits for its own stores, which counts do not show: prefix_sum, 0.3.
    assert {pair.subject.problem for pair in found if not 0.4 < pair.factor < 2.5} <= {"prefix_sum"}
    # Another source than was measured is not compared.
    measured["rows"] = [row | {"source_sha256": hashlib.sha256(b"").hexdigest()} for row in measured["rows"]]
    assert pairs_of(measured, counts, subjects()) == []


def test_the_picture_holds_every_pair():
    some = pairs(lambda time_us: time_us)
    root = ElementTree.fromstring(picture(some, figures_of(some), "NVIDIA H200"))
    circles = root.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == len(some) + 2  # and the legend's
