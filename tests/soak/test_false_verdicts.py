"""No signal makes a verdict false: it is the undisturbed one, or a fault of ours without a reward.

A sample by default; `make soak` disturbs a thousand evaluations, or as many as ASSAY_SOAK says.
"""

import json
import os
from pathlib import Path

import pytest
from pressure import press
from setups import Embedded

COUNT = int(os.environ.get("ASSAY_SOAK", "0"))
SEED = int(os.environ.get("ASSAY_SOAK_SEED", "23"))
CACHE = Path(__file__).parents[2] / ".assay" / "tests" / "cache"
SAMPLE = 8

pytestmark = pytest.mark.timeout(7200 if COUNT else 300)


def test_signals_make_no_verdict_false(tmp_path):
    setup = Embedded(tmp_path, cache=CACHE)
    try:
        setup.start()
        pressed = press(setup, COUNT or SAMPLE, SEED)
        setup.stop()
        left_over = setup.left_over()
    finally:
        setup.remove()
    print(json.dumps({**pressed.figures(), "by_signal": pressed.strikes}), *pressed.ours, sep="\n")
    if folder := os.environ.get("ASSAY_SOAK_RESULTS"):
        figures = {**pressed.figures(), "by_victim": pressed.strikes}
        Path(folder, "false_verdicts.json").write_text(json.dumps(figures))
    assert pressed.false == []
    assert pressed.unanswered == []
    assert pressed.disturbed >= pressed.evaluations // 4, "else nothing was tried"
    assert left_over == []
