"""`assay demo`, as a newcomer runs it: in an empty folder, without anything set."""

import re
from html.parser import HTMLParser

EXPECTED = {
    "does_not_compile.cu": "compile_error",
    "loops_for_ever.cu": "timeout",
    "passes_fast.cu": "passed",
    "passes_naive.cu": "passed",
    "writes_out_of_bounds.cu": "runtime_error",
    "wrong_at_odd_sizes.cu": "incorrect",
}


class References(HTMLParser):
    """Everything that a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        loads = {"src", "srcset", "data", "poster", "action"} | ({"href"} if tag != "a" else set())
        self.found += [value or "" for name, value in attrs if name in loads]


def test_the_demo_shows_each_end_and_writes_one_page(assay):
    assay.environment["COLUMNS"] = "100"
    ended = assay("demo")
    assert ended.returncode == 0, ended.stderr

    cards = re.findall(r"─ examples/(\w+\.cu)[^\n]*\n│ \S+ (\w+) in phase", ended.stdout)
    assert dict(cards) == EXPECTED
    assert len(cards) == len(EXPECTED)
    seconds = re.search(r"Graded 6 kernels in ([0-9.]+) s", ended.stdout)
    assert seconds is not None
    assert float(seconds[1]) < 60

    assert [path.name for path in assay.folder.iterdir()] == ["assay-report.html"], "one file, and no other"
    assert str(assay.folder / "assay-report.html") in ended.stdout
    page = (assay.folder / "assay-report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert all(name in page for name in EXPECTED)
    references = References()
    references.feed(page)
    assert [one for one in references.found if not one.startswith(("data:", "#"))] == []
    assert not re.search(r"url\((?!['\"]?(?:data:|#))|@import", page)


def test_a_report_that_cannot_be_written_is_said_before_the_work(assay):
    ended = assay("demo", "--report", assay.folder)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "is a folder" in ended.stderr
