"""The referee's stack, sampled from another thread: only where that is asked for, and where the time really goes."""

import json
import os
import time

from evaluator.pipeline.gpu.stack_samples import sampled


def spin(seconds):
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        pass


def pause(seconds):
    time.sleep(seconds)


def test_computing_and_waiting_are_seen_in_their_proportion(tmp_path):
    with sampled(str(tmp_path)):
        spin(0.6)
        pause(0.6)
    stacks = json.loads((tmp_path / f"{os.getpid()}.json").read_text())
    seen = {name: sum(n for stack, n in stacks.items() if f":{name}:" in stack) for name in ("spin", "pause")}
    assert sum(seen.values()) >= 30
    assert 0.3 < seen["spin"] / sum(seen.values()) < 0.7


def test_nothing_is_sampled_unless_the_variable_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("ASSAY_REFEREE_PROFILE", raising=False)
    with sampled():
        spin(0.05)
    monkeypatch.setenv("ASSAY_REFEREE_PROFILE", str(tmp_path))
    with sampled():
        spin(0.05)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_written_costs_no_job(tmp_path):
    (tmp_path / "file").touch()
    with sampled(str(tmp_path / "file" / "below")):
        spin(0.05)
