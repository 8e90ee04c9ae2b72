"""The rule that says which findings are wrong and which a warning: one row for each kind, and the docs show it."""

from pathlib import Path
from typing import get_args

import pytest

from common.contract import Fault
from evaluator.backends.session import Hazard, HazardKind, RunOutcome
from evaluator.backends.sim.hazards import read_notices
from evaluator.stages.verify.findings.race_checks import Watching
from evaluator.stages.verify.findings.severity import RULES, table

ROOT = Path(__file__).parents[5]
RUNTIME = ROOT / "evaluator/backends/sim/runtime"


def test_every_kind_has_a_row_and_the_page_shows_it():
    assert set(RULES) == set(get_args(HazardKind))
    assert table() in (ROOT / "docs/verification.md").read_text(encoding="utf-8")


def seen(kind: HazardKind):
    fault = Fault(kind="race", message="reads s[1] on line 3", line=3, thread=(0, 0, 0), block=(0, 0, 0))
    outcome = RunOutcome({}, hazards=(Hazard(kind, fault, "Mend it."),), watched_blocks=(1, 1))
    return Watching(1).look(outcome, "n=1", 9)


@pytest.mark.parametrize("kind", RULES)
def test_what_watching_found_means_what_its_row_says(kind):
    found = seen(kind)
    assert (found.ruling is not None) == (RULES[kind].severity == "incorrect")
    warned = RULES[kind].severity == "warning"
    assert [(hazard.kind, hazard.line, hazard.remedy) for hazard in found.hazards] == [(kind, 3, "Mend it.")] * warned
    assert len(found.warnings) == warned


def test_a_line_of_the_runtime_becomes_a_notice_of_its_kind():
    names = (RUNTIME / "shadow.h").read_text().split("enum HazardKind : u32 {")[1].split("}")[0]
    names = "\n".join(line.split("//")[0] for line in names.splitlines())
    numbers = {name.strip(): number for number, name in enumerate(names.split(","))}
    lines = [
        f"{numbers['ABSENT']} 7 names lanes",
        f"{numbers['ACTIVEMASK']} 0 was taken",
        f"{numbers['NOTE']} 4 copies",
    ]
    texts, notices = read_notices(lines)
    assert texts == ("line 7: names lanes", "was taken", "line 4: copies")
    assert [(notice.kind, notice.line) for notice in notices] == [("absent_lanes", 7), ("activemask", None)]
    assert all(notice.remedy for notice in notices)
