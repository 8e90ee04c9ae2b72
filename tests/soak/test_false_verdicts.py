"""No signal makes a verdict false: it is the undisturbed one, or a fault of ours without a reward.

A sample by default; `make soak` disturbs a thousand evaluations in each set-up, or as many as ASSAY_SOAK says. With
ASSAY_SOAK_RESULTS the figures so far are written into that folder after each evaluation.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from composed import Composed, what_is_missing
from databases import postgres_programs
from pressure import press
from setups import Distributed, Embedded

COUNT = int(os.environ.get("ASSAY_SOAK", "0"))
SEED = int(os.environ.get("ASSAY_SOAK_SEED", "23"))
CACHE = Path(__file__).parents[2] / ".assay" / "tests" / "cache"
SAMPLE = 4

pytestmark = pytest.mark.timeout(7200 if COUNT else 300)


def needs(there, what):
    if not there:
        assert not os.environ.get("CI"), f"CI must have {what}"
        pytest.skip(f"{what} is not here")


def write(name, pressed, left_over=()):
    """Where figures are wanted, in one step, so that nobody reads half of them."""
    if folder := os.environ.get("ASSAY_SOAK_RESULTS"):
        figures = {**pressed.figures(), "left_over": len(left_over), "by_victim": pressed.strikes}
        unfinished = Path(folder, f"{name}.json.unfinished")
        unfinished.write_text(json.dumps(figures))
        unfinished.rename(Path(folder, f"{name}.json"))


def press_hard(setup, name):
    try:
        setup.start()
        pressed = press(setup, COUNT or SAMPLE, SEED, lambda pressed: write(name, pressed))
        setup.stop()
        left_over = setup.left_over()
    finally:
        setup.remove()
    print(json.dumps({**pressed.figures(), "by_signal": pressed.strikes}), *pressed.ours, sep="\n")
    write(name, pressed, left_over)
    assert pressed.false == []
    assert pressed.unanswered == []
    assert pressed.disturbed >= (COUNT or SAMPLE), "else nothing was tried"
    assert left_over == []


def test_signals_make_no_verdict_false(tmp_path):
    press_hard(Embedded(tmp_path, cache=CACHE), "pressed_embedded")


@pytest.mark.skipif(not COUNT, reason="one form is enough for a sample")
def test_signals_make_no_verdict_false_with_celery(tmp_path):
    needs(shutil.which("redis-server"), "redis-server")
    needs(postgres_programs(), "PostgreSQL's server programs (initdb, pg_ctl)")
    press_hard(Distributed(tmp_path, cache=CACHE), "pressed_distributed")


@pytest.mark.skipif(not COUNT, reason="one form is enough for a sample")
def test_signals_make_no_verdict_false_in_containers():
    missing = what_is_missing()
    needs(missing is None, missing)
    press_hard(Composed(), "pressed_composed")
