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
    reached = changed["gpu_throughput"]
    for name in reached["goals"]:
        if name.endswith("_per_minute"):
            reached["figures"][name] = 1e6
    changed["timing_repeatability"]["figures"]["busy_coverage"] = 0.5
    text = gpu_page.page(changed)
    assert "1000 a minute was reached" in text
    assert "busy coverage (0.5)" in text
    assert len(gpu_page.missed(changed["timing_repeatability"])) == text.count("**missed**")


def test_once_the_service_has_been_measured_the_page_says_what_that_gave(records):
    """Until then it has the figures of the benchmark before, and says that they are."""
    assert "replaced since" in gpu_page.page(records)
    figures = {"clients": 64, "workers": 16, "cores": 16, "gpus": 1, "referees_per_gpu": 2, "wrong_verdicts": 0}
    figures |= {"gpu_usd_an_hour": 3.0, "core_usd_an_hour": 0.04}
    each = {"per_minute": 312, "p50_s": 9.5, "cpu_s_each": 2.5, "gpu_s_each": 0.19, "usd_a_thousand": 0.19}
    for name in ("default", "kernelbench_cold"):
        figures |= {f"{name}_{figure}": value for figure, value in each.items()}
    figures |= {
        "default_referee_s_each": 0.15,
        "default_referee_time_s_each": 0.08,
        "default_referee_busy_share": 0.8,
    }
    named = records["gpu_throughput"]["details"]["wrong"]
    goals = {"default_per_minute": [">=", 300.0]}
    new = {**records["gpu_throughput"], "figures": figures, "goals": goals, "details": {"wrong": named}}
    text = gpu_page.page(
        {**{name: record for name, record in records.items() if name != "gpu_throughput"}, "throughput": new}
    )
    assert "| `default` | **312** | at least 300: met | 9.5 | 2.5 | 0.19 | 0.19 |" in text
    assert "2 referee(s)" in text
    assert "replaced since" not in text


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
