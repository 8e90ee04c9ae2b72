"""The pages of conversations: what was said and judged is on them, and nothing that a model wrote does anything."""

import base64
import hashlib
import re
import shutil
import time
from html.parser import HTMLParser

import pytest
from devtools import CHROMIUM, Browser
from hypothesis import given
from hypothesis import strategies as st
from scripted import kernel, played

from trainer.conversation.extraction import wrapped
from trainer.conversation.rewards import CreditSettings
from trainer.errors import TrainerError
from trainer.reporting.transcript_page import MAX_CHARACTERS, difference_of, views_of, visible, write_pages
from trainer.reporting.transcripts import transcript, write_transcripts

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202e{{ 7 * 7 }}"


def one(*answers, step=1):
    return transcript(played(list(answers)), CreditSettings(), step)


def text(name, line=""):
    return wrapped(kernel(name).replace("y[0] = x[0];", f"y[0] = x[0];{line}"))


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "first"
    several = one(text("compile_a"), text("wrong_b", "  // changed"), HOSTILE, text("pass_c"))
    write_transcripts(folder / "transcripts" / "train-000001.jsonl", [several])
    write_transcripts(folder / "transcripts" / "held_out-000001.jsonl", [one(text("fault_a"), text("fault_a"))])
    write_transcripts(folder / "transcripts" / "train-000002.jsonl", [one("", step=2)])
    return folder


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def page(path):
    parser = Tags()
    parser.feed(path.read_text())
    return parser.tags, " ".join("".join(parser.text).split())


def test_a_page_lists_all_and_each_has_its_own(run):
    assert write_pages(run, run / "pages") == 3
    tags, said = page(run / "pages" / "index.html")
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert sorted(links) == ["0001.html", "0002.html", "0003.html"]
    assert all((run / "pages" / link).is_file() for link in links)
    assert "held out" in said
    assert said.startswith("Conversations of first")


def test_a_conversation_is_told_turn_by_turn_with_what_changed_and_why_it_earned(run):
    write_pages(run, run / "pages")
    found = [page(path) for path in sorted((run / "pages").glob("0*.html"))]
    tags, said = next((tags, said) for tags, said in found if "Kernel 4" in said)
    sections = [attributes["class"].split()[1] for tag, attributes in tags if tag == "section"]
    assert sections == ["bad", "bad", "bad", "good"]
    rows = [attributes["class"] for tag, attributes in tags if tag == "span" and "row" in attributes.get("class", "")]
    assert {"row plus", "row minus", "row same"} <= set(rows)
    for part in (
        "compile error",
        "incorrect",
        "no kernel",
        "passed",
        "The reward, term by term",
        "Every test passed.",
    ):
        assert part in said, part
    assert "0.3 x" in said, "how the final reward is shared is explained"
    repeated = next(said for _, said in found if "repeats kernel 1" in said)
    assert "a kernel was repeated" in repeated


def test_what_a_model_wrote_does_nothing(run):
    write_pages(run, run / "pages")
    whole = "".join(path.read_text() for path in (run / "pages").glob("*.html"))
    tags = [tag for path in (run / "pages").glob("*.html") for tag in page(path)[0]]
    assert not [tag for tag, _ in tags if tag in ("script", "img", "iframe", "link", "object")]
    assert "\\u{202e}{{ 7 * 7 }}" in whole
    assert "\u202e" not in whole
    (style,) = set(re.findall(r"<style>(.*?)</style>", whole, re.DOTALL))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert all(f"style-src 'sha256-{digest}'" in path.read_text() for path in (run / "pages").glob("*.html"))


def test_only_the_newest_are_shown_and_a_file_alone_will_do(run, tmp_path):
    assert write_pages(run, tmp_path / "two", last=2) == 2
    assert "step 2" in page(tmp_path / "two" / "0002.html")[1]
    assert write_pages(run / "transcripts" / "train-000002.jsonl", tmp_path / "one") == 1


def test_a_folder_without_transcripts_is_named(tmp_path):
    with pytest.raises(TrainerError, match="There are no transcripts"):
        write_pages(tmp_path, tmp_path / "pages")


def test_a_difference_is_to_the_last_answer_that_had_a_kernel():
    views = list(views_of(one(text("wrong_a"), "I cannot.", text("pass_b"))))
    assert [view.difference is None for view in views] == [True, True, False]
    assert {row.kind for row in views[2].difference} == {"+", "-", " "}


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "{"]), max_size=30)


@given(LINES, LINES, st.integers(0, 30))
def test_a_difference_with_all_its_context_leads_from_the_old_text_to_the_new(old, new, around):
    rows = list(difference_of("\n".join(old), "\n".join(new), around=60))
    # A newline at the very end makes another text of the same lines, which differ in nothing.
    if "\n".join(old).splitlines() != "\n".join(new).splitlines():
        assert [row.text for row in rows if row.kind in " -"] == "\n".join(old).splitlines()
        assert [row.text for row in rows if row.kind in " +"] == "\n".join(new).splitlines()
    shorter = list(difference_of("\n".join(old), "\n".join(new), around=around))
    changed = [row for row in rows if row.kind in "+-"]
    assert [row for row in shorter if row.kind in "+-"] == changed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["a"] * 130, ["a", "b"] * 75),
        (["a"] * 1000, ["a", "b"] * 500),
        ([str(number) for number in range(1999)], [str(number) for number in reversed(range(1999))]),
        (["a"] * 200_000, ["a", "b"] * 100_000),
        ([str(number) for number in range(200_000)], ["one"]),
    ],
)
def test_a_hostile_difference_takes_no_longer_than_others(old, new):
    began_s = time.process_time()
    assert list(difference_of("\n".join(old), "\n".join(new)))
    assert time.process_time() - began_s < 5


@given(st.text(max_size=200))
def test_nothing_unseen_reaches_a_page(said):
    shown = visible(said)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", shown)
    assert visible("x" * (MAX_CHARACTERS + 5)).endswith("(5 more characters)")


def test_in_a_browser_at_the_width_of_a_telephone_nothing_overflows(run, tmp_path):
    if CHROMIUM is None:
        pytest.skip("There is no Chromium here.")
    write_pages(run, run / "pages")
    browser = Browser(tmp_path / "profile")
    try:
        for width in (360, 1200):
            for dark in (False, True):
                browser.show(width=width, dark=dark)
                for name in ("index", "0001", "0002", "0003"):
                    browser.go((run / "pages" / f"{name}.html").as_uri())
                    assert browser.value("document.documentElement.scrollWidth <= innerWidth"), (name, width)
        background = browser.value("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(17, 20, 24)", "the style sheet is let through, and dark"
        assert browser.complaints == []
    finally:
        browser.close()
        shutil.rmtree(tmp_path / "profile", ignore_errors=True)
