"""docs/gpu.md says what the results say: all of it, and the missed goals too."""

import copy

import pytest

from benchmarks.gpu import gpu_page


@pytest.fixture(scope="module")
def records():
    return gpu_page.load()


def test_the_page_is_that_of_the_results(records):
    assert gpu_page.PAGE.read_text(encoding="utf-8") == gpu_page.page(records), "run benchmarks/gpu/gpu_page.py"


def test_every_attack_and_every_differing_kernel_is_on_the_page(records):
    text = gpu_page.page(records)
    for row in records["gpu_corpus"]["attacks"]:
        assert f"| `{row['name']}`" in text
    for row in records["gpu_corpus"]["honest"]:
        assert row["same"] or (f"| `{row['name']}`" in text and row["sim"]["message"] in text)


def test_a_goal_that_is_missed_is_said(records):
    changed = copy.deepcopy(records)
    changed["throughput"]["figures"]["default_per_minute"] = 312.0
    changed["throughput"]["figures"]["coarse_warm_per_minute"] = 999.0
    changed["timing_repeatability"]["figures"]["busy_coverage"] = 0.5
    text = gpu_page.page(changed)
    assert "| **312** | at least 300: met |" in text
    assert "| **999** | at least 1000: **missed** |" in text
    assert "busy coverage (0.5)" in text


def test_what_is_new_must_be_explained(records):
    changed = copy.deepcopy(records)
    changed["gpu_corpus"]["attacks"][0]["complaints"] = ["it passed"]
    with pytest.raises(ValueError, match=r"REMARKS.*asks_the_cycle_counter"):
        gpu_page.page(changed)
    changed = copy.deepcopy(records)
    for row in changed["gpu_corpus"]["honest"]:
        row["same"] = True
    with pytest.raises(ValueError, match=r"DIFFERENCES.*relu_bulk_copy"):
        gpu_page.page(changed)
