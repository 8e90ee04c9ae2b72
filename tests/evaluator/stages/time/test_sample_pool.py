import dataclasses
import itertools
import multiprocessing

import numpy as np
import pytest

from common.contract import DeviceState
from evaluator.stages.time.sample_pool import MAX_SAMPLES, TimingKey, TimingPool
from evaluator.stages.time.statistics import Measurement, summarise

KEY = TimingKey("a7" * 32, "3f" * 32, "relu", "1", {"n": 1024}, "GPU-1", "580.159.04", "PyTorch 2.11.0 eager")


def measurement(seed, count=30, shift=1.0):
    generator = np.random.default_rng(seed)
    event = tuple(shift * 10 * generator.lognormal(0, 0.01, count))
    baseline = tuple(20 * generator.lognormal(0, 0.01, count))
    return Measurement(
        {"n": 1024}, event, event, event, baseline, 8.0, "PyTorch 2.11.0 eager", DeviceState(name="NVIDIA H200")
    )


def test_all_evaluations_of_one_program_are_pooled(tmp_path):
    pool = TimingPool(tmp_path)
    first = pool.add(KEY, "one", measurement(1))
    assert (sorted(first.event_us), first.evaluations) == (sorted(measurement(1).event_us), 1)
    second = TimingPool(tmp_path).add(KEY, "two", measurement(2))
    assert sorted(second.event_us) == sorted((*measurement(1).event_us, *measurement(2).event_us))
    assert sorted(second.baseline_us) == sorted((*measurement(1).baseline_us, *measurement(2).baseline_us))
    assert second.evaluations == 2


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(TimingKey)])
def test_another_program_machine_or_baseline_is_another_pool(tmp_path, field):
    pool = TimingPool(tmp_path)
    pool.add(KEY, "one", measurement(1))
    other = dataclasses.replace(KEY, **{field: {"n": 1} if field == "sizes" else "b0"})
    assert pool.add(other, "two", measurement(2)).evaluations == 1


def test_the_order_of_sizes_does_not_matter(tmp_path):
    pool = TimingPool(tmp_path)
    pool.add(dataclasses.replace(KEY, sizes={"m": 1, "n": 2}), "one", measurement(1))
    assert pool.add(dataclasses.replace(KEY, sizes={"n": 2, "m": 1}), "two", measurement(2)).evaluations == 2


def test_the_same_evaluation_counts_once(tmp_path):
    pool = TimingPool(tmp_path)
    once = pool.add(KEY, "one", measurement(1))
    assert pool.add(KEY, "one", measurement(1)) == once


def test_what_a_full_pool_keeps_does_not_depend_on_the_order(tmp_path):
    pools = []
    for number, order in enumerate(itertools.permutations(range(4))):
        pool = TimingPool(tmp_path / str(number))
        for seed in order:
            kept = pool.add(KEY, f"evaluation {seed}", measurement(seed, count=150))
        pools.append(kept)
    assert len(pools[0].event_us) == len(pools[0].baseline_us) == MAX_SAMPLES
    assert pools[0].evaluations == 4
    assert set(pools) == {pools[0]}


def test_asking_again_redraws_no_luck(tmp_path):
    """The best of many repeats is no better than the first: what is told converges to the truth."""
    alone, pooled = [], []
    pool = TimingPool(tmp_path)
    for seed in range(40):
        taken = measurement(seed)
        alone.append(summarise(taken).speedup)
        pooled.append(summarise(taken, pooled=pool.add(KEY, str(seed), taken)).speedup)
    assert np.ptp(pooled[-10:]) < np.ptp(alone[-10:]) / 3
    assert abs(pooled[-1] - 2) < 0.01
    assert max(pooled[20:]) < max(alone)
    # A lucky run among many cannot lift the answer.
    lucky = measurement(99, count=30, shift=0.5)
    assert abs(summarise(lucky, pooled=pool.add(KEY, "lucky", lucky)).speedup - 2) < 0.02


def _add(folder, first, count):
    pool = TimingPool(folder)
    for number in range(first, first + count):
        pool.add(KEY, f"evaluation {number}", measurement(number, count=5))


def test_processes_lose_nothing_of_each_other(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(tmp_path, 100 * worker, 10)) for worker in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    last = TimingPool(tmp_path).add(KEY, "last", measurement(7, count=5))
    assert (last.evaluations, len(last.event_us)) == (31, 31 * 5)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:-9] + b"7" + data[-8:]],
    ids=["cut short", "empty", "a changed digit"],
)
def test_a_damaged_pool_is_a_forgotten_one(tmp_path, damage):
    pool = TimingPool(tmp_path)
    pool.add(KEY, "one", measurement(1))
    (entry,) = (path for path in tmp_path.rglob(KEY.hash) if path.is_file())
    entry.write_bytes(damage(entry.read_bytes()))
    assert pool.add(KEY, "two", measurement(2)).evaluations == 1
    assert pool.add(KEY, "three", measurement(3)).evaluations == 2


def test_without_a_folder_each_evaluation_stands_alone_and_says_why(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    pool = TimingPool(blocked)
    for name in ("one", "two"):
        assert pool.add(KEY, name, measurement(1)).evaluations == 1
    assert "cannot be written" in pool.warning
