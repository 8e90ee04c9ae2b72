"""The page about lifting lists what the recorder has."""

import re
from pathlib import Path

from evaluator.stages.lift.host_program import RECORDER

PAGE = Path(__file__).parents[4] / "docs" / "lifting.md"


def test_the_page_lists_the_functions_that_can_be_recorded():
    text = "".join(path.read_text() for path in sorted(RECORDER.glob("*.cpp")))
    defined = dict(re.findall(r"^(?:cudaError_t|const char \*) ?(cuda\w+)\([^{]*\{([^\n]*)", text, re.MULTILINE))
    recorded = {name for name, body in defined.items() if 'refuse("not_covered"' not in body}
    listed = PAGE.read_text().split("## What can be recorded")[1].split("## ")[0]
    assert set(re.findall(r"`(cuda\w+)`", listed)) == recorded - {"cudaGetDeviceProperties_v2"}
