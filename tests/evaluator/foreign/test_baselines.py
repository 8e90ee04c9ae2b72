"""Baselines of problems of others: what is kept for which device and versions, and when it is measured anew."""

import time
from pathlib import Path

import pytest

from evaluator.disk_cache import Cache
from evaluator.foreign import baselines
from evaluator.foreign.baselines import (
    DRIFT,
    FAILED_KEPT_S,
    KEPT_S,
    BaselineStore,
    MeasuredBaseline,
    Subject,
    drifted,
)
from evaluator.pipeline.toolbox import Toolbox

RELU = (Path(__file__).parent / "references" / "relu.py").read_bytes()
PROBE = {"copy": 100.0, "product": 300.0}


def measured(**changed: object) -> MeasuredBaseline:
    fields = {"name": "eager", "samples_us": (3.0, 1.0, 2.0), "why_not": None, "at_s": 1000.0, "probe_us": PROBE}
    return MeasuredBaseline(**{**fields, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "now_s", "probe", "current"),
    [
        (measured(), 1000.0, PROBE, True),
        (measured(), 1000.0 + KEPT_S + 1, PROBE, False),
        (measured(), 999.0, PROBE, False),
        (measured(), 1000.0, {**PROBE, "copy": 100.0 * (1 + 0.9 * DRIFT)}, True),
        (measured(), 1000.0, {**PROBE, "copy": 100.0 * (1 + 1.1 * DRIFT)}, False),
        (measured(), 1000.0, {**PROBE, "product": 300.0 * (1 - 1.1 * DRIFT)}, False),
        (measured(), 1000.0, {}, False),
        (measured(samples_us=(), why_not="no compiler", probe_us={}), 1000.0 + FAILED_KEPT_S - 1, PROBE, True),
        (measured(samples_us=(), why_not="no compiler"), 1000.0 + FAILED_KEPT_S + 1, PROBE, False),
    ],
    ids=["new", "old", "later", "near", "slower", "faster", "other probe", "failed", "failed long ago"],
)
def test_what_is_old_or_was_measured_on_a_device_of_another_speed_is_measured_anew(
    one: MeasuredBaseline, now_s: float, probe: dict[str, float], current: bool
) -> None:
    assert one.is_current(now_s, probe) is current


def test_drift_goes_both_ways_and_the_verdict_shows_the_median() -> None:
    assert not drifted(PROBE, PROBE)
    assert drifted(PROBE, {"copy": 100.0})
    told = measured().as_told(1060.0)
    assert (told.latency_us, told.launches, told.age_s, told.words) == (2.0, 3, 60.0, "eager")


def test_each_device_version_file_and_size_has_its_own(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(gpu: str = "GPU-1", driver: str = "580", text: bytes = b"a", n: int = 1, name: str = "eager") -> str:
        store = BaselineStore(toolbox.sandbox, toolbox.cache, gpu, driver, lambda: PROBE)
        return store.key(Subject(text, {"n": n}), name)  # type: ignore[arg-type]

    keys = {key(), key(gpu="GPU-2"), key(driver="581"), key(text=b"b"), key(n=2), key(name="compile")}
    monkeypatch.setattr(baselines, "_versions", lambda: ("torch 9.0",))
    assert len(keys | {key()}) == 7
    assert key() == key()


def test_a_baseline_is_timed_once_and_again_where_the_device_has_drifted(toolbox: Toolbox, tmp_path: Path) -> None:
    """On the processor, in a process of its own; what cannot be built there says why."""
    speed = {"copy": 100.0}
    store = BaselineStore(toolbox.sandbox, Cache(tmp_path, 1 << 24), "", "none", lambda: dict(speed))
    subject = Subject(RELU, {"dim": 100})
    with store.open(subject, ("eager", "cuda_graph")) as opened:
        first = dict(opened.measured())
    assert first["cuda_graph"].why_not == "RuntimeError: a CUDA graph needs a GPU"
    assert len(first["eager"].samples_us) >= 20
    begun_s = time.monotonic()
    with store.open(subject, ("eager",)) as opened:
        assert opened.measured()["eager"] == first["eager"]
    assert time.monotonic() - begun_s < 1.0
    speed["copy"] = 120.0
    with store.open(subject, ("eager",)) as opened:
        assert opened.measured()["eager"].at_s > first["eager"].at_s


def test_a_file_that_cannot_be_read_has_no_baseline(toolbox: Toolbox, tmp_path: Path) -> None:
    store = BaselineStore(toolbox.sandbox, Cache(tmp_path, 1 << 24), "", "none", dict)
    with store.open(Subject(RELU.replace(b"torch.relu", b"torch.no_such"), {}), ("eager",)) as opened:
        (found,) = opened.measured().values()
    assert found.samples_us == ()
    assert found.why_not is not None
    assert "no_such" in found.why_not
