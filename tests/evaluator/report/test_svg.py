"""Each template by what it makes of a small input, and what becomes of names that are meant to do harm."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from evaluator.report.charts import Point, Racer, Roof, access, changes, occupancy_chart, race, roofline_chart, times
from evaluator.report.svg import Scale

NASTY = "\"><script>alert(1)</script>'&{{ 7*7 }}\x00\x1b[31m\u202e\u200b\r"
HARMLESS = "\"><script>alert(1)</script>'&{{ 7*7 }}\\x00\\x1b[31m\\u202e\\u200b\\x0d"


def inside(markup):
    """The lines between a picture's first and its last."""
    first, *lines, last = str(markup).splitlines()
    assert first.startswith('<svg class="picture" viewBox="0 0 304 ')
    assert last == "</svg>"
    return lines


def test_a_scale_is_a_straight_line_or_one_of_factors():
    assert [Scale(10, 30, 100, 0)(value) for value in (10, 15, 30)] == [100, 75, 0]
    factors = Scale(0.5, 8, 0, 100, logarithmic=True)
    assert [factors(value) for value in (0.5, 1, 2, 8)] == pytest.approx([0, 25, 50, 100])


def test_a_histogram():
    assert inside(times((("submission", (5.0, 5.0, 6.0)),))) == [
        '<text class="f-ink" x="8" y="18">Submission: 3 launches, median 5 µs</text>',
        '<g><title>4.98 to 5.0089 µs: 2 launches</title><path class="f-accent" d="M8 26H15V80H8z"/></g>',
        '<g><title>5.9911 to 6.02 µs: 1 launch</title><path class="f-accent" d="M288 53H295V80H288z"/></g>',
        '<path class="s-soft" d="M8 80L296 80"/>',
        '<path class="s-ink" stroke-width="2" d="M13.5 26L13.5 80"/>',
        '<text class="f-soft tiny" x="13.5" y="94" text-anchor="middle">5</text>',
        '<text class="f-soft tiny" x="82.8" y="94" text-anchor="middle">5.25</text>',
        '<text class="f-soft tiny" x="152" y="94" text-anchor="middle">5.5</text>',
        '<text class="f-soft tiny" x="221.2" y="94" text-anchor="middle">5.75</text>',
        '<text class="f-soft tiny" x="290.5" y="94" text-anchor="middle">6</text>',
        '<text class="f-soft tiny" x="296" y="112" text-anchor="end">microseconds</text>',
    ]


def test_a_tick_at_the_edge_keeps_its_label_on_the_picture():
    lines = inside(times((("submission", (1.00001, 1.00004)),)))
    assert '<text class="f-soft tiny" x="21" y="94" text-anchor="middle">1.00001</text>' in lines
    assert '<text class="f-soft tiny" x="283" y="94" text-anchor="middle">1.00004</text>' in lines


def test_one_launch_among_thousands_is_seen():
    bars = [line for line in inside(times((("submission", (5.0,) * 5000 + (5.2,)),))) if "1 launch<" in line]
    assert bars == [
        '<g><title>5.1982 to 5.204 µs: 1 launch</title><path class="f-accent" d="M288 79H295V80H288z"/></g>'
    ]


def test_a_roofline():
    roof = Roof("GPU", 1000.0, (("float64", 8000.0), ("float32", 10_000.0)), "operations", "FLOP")
    lines = inside(roofline_chart(roof, (Point("k", 1.0, 500.0, False),)))
    words = "k: 1 FLOP for each byte, 500 billion FLOP a second (estimated), 50% of what the roof allows"
    assert [line for line in lines if "<title>" in line] == [
        f'<g><title>{words}</title><path class="s-accent f-card" stroke-width="2.5" '
        'd="M93.5 158.8a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0z"/></g>'
    ]
    # The roof: memory's slope up to the ridge, then the higher ceiling; the lower one begins further left.
    assert [line for line in lines if 'stroke-width="1.8"' in line] == [
        '<path class="s-ink" stroke-width="1.8" d="M46 176.4L200.4 55.2"/>',
        '<path class="s-ink" stroke-width="1.8" d="M200.4 55.2L292 55.2"/>',
        '<path class="s-soft" stroke-width="1.8" d="M190.6 63L292 63"/>',
    ]
    # Two ceilings are close together: one has its label over its line, the other under it.
    labels = ElementTree.fromstring("<svg>" + "".join(lines) + "</svg>").iter("text")
    assert [(text.text, text.get("y")) for text in labels if "float" in text.text] == [
        ("float32, 10 T", "49.2"),
        ("float64, 8 T", "75"),
    ]
    assert '<text class="f-accent bold halo" x="110" y="162.8">50% of the roof</text>' in lines


def test_room_for_warps():
    assert inside(occupancy_chart((("registers", 24), ("blocks", 256)), "registers", 64)) == [
        '<text class="f-ink bold" x="98" y="20" text-anchor="end">registers</text>',
        '<path class="f-track" d="M108 6H268V26H108z"/>',
        '<g><title>registers: room for 24 warps of 64</title><path class="f-accent" d="M108 6H168V26H108z"/></g>',
        '<text class="f-ink bold" x="278" y="20">24</text>',
        '<text class="f-soft" x="98" y="50" text-anchor="end">blocks</text>',
        '<path class="f-track" d="M108 36H268V56H108z"/>',
        '<g><title>blocks: room for 256 warps of 64</title><path class="f-other" d="M108 36H268V56H108z"/></g>',
        '<text class="f-soft" x="278" y="50">64+</text>',
        '<text class="f-soft tiny" x="108" y="80">0</text>',
        '<text class="f-soft tiny" x="268" y="80" text-anchor="end">64 warps</text>',
    ]


def test_sectors_that_a_warp_touches():
    assert inside(access("global", (32, None, 62), 4)) == [
        '<text class="f-ink" x="8" y="18">32 lanes, 4 bytes each</text>',
        '<g><title>lane 0: bytes 32 to 35</title><path class="f-accent" d="M8 26H15V40H8z"/></g>',
        '<g><title>lane 1: takes no part</title><path class="f-track" d="M17 26H24V40H17z"/></g>',
        '<g><title>lane 2: bytes 62 to 65</title><path class="f-accent" d="M26 26H33V40H26z"/></g>',
        '<path class="s-soft" stroke-width="0.7" opacity="0.7" d="M11.5 40L114.2 104M29.5 40L151.2 104"/>',
        '<g><title>sector 1: 6 of 32 bytes are used</title><path class="f-track" d="M111.8 104H151.2V124H111.8z"/>',
        '<path class="f-accent" d="M111.8 104H116.7V124H111.8zM148.8 104H151.2V124H148.8z"/></g>',
        '<g><title>sector 2: 2 of 32 bytes are used</title><path class="f-track" d="M152.8 104H192.2V124H152.8z"/>',
        '<path class="f-accent" d="M152.8 104H155.2V124H152.8z"/></g>',
        '<text class="f-ink" x="8" y="156">2 sectors moved, 12% of their bytes used</text>',
    ]


def test_banks_that_a_warp_touches():
    lines = inside(access("shared", (0, 128, None, 4), 4))
    assert 'opacity="0.7" d="M11.5 40L11.5 100M20.5 40L11.5 100M38.5 40L20.5 100"/>' in lines[5]
    first = lines.index('<g><title>bank 0: 2 words</title><path class="f-track" d="M8 100H15V124H8z"/>')
    assert lines[first + 1 : first + 6] == [
        '<path class="f-minus" d="M8 100H15V109.6H8zM8 112H15V121.6H8z"/></g>',
        '<g><title>bank 1: 1 word</title><path class="f-track" d="M17 100H24V124H17z"/>',
        '<path class="f-accent" d="M17 100H24V109.6H17z"/></g>',
        '<g><title>bank 2: 0 words</title><path class="f-track" d="M26 100H33V124H26z"/>',
        "</g>",
    ]
    assert lines[-1] == '<text class="f-ink" x="8" y="162">32 banks: up to 2 words from one</text>'


def test_what_changed():
    assert inside(changes((("sectors", 0.25, True), ("spills", None, False)))) == [
        '<text class="f-ink tiny" x="114" y="18" text-anchor="end">sectors</text>',
        '<g><title>sectors, × 0.25, better</title><path class="f-good" d="M122 6H184V22H122z"/></g>',
        '<text class="f-good tiny" x="300" y="18" text-anchor="end">× 0.25</text>',
        '<text class="f-ink tiny" x="114" y="42" text-anchor="end">spills</text>',
        '<g><title>spills, new, worse</title><path class="f-bad" d="M184 30H246V46H184z"/></g>',
        '<text class="f-bad tiny" x="300" y="42" text-anchor="end">new</text>',
        '<path class="s-soft" d="M184 0L184 54"/>',
        '<text class="f-soft tiny" x="184" y="68" text-anchor="middle">unchanged</text>',
    ]


def test_who_races_with_whom():
    lines = inside(race(Racer("thread 3", "writes", 7), Racer("thread 4", "reads", None), "x[0]"))
    assert [line for line in lines if line.startswith("<text")] == [
        '<text class="f-accent bold" x="8" y="16">thread 3</text>',
        '<text class="f-soft tiny" x="96" y="36">writes, line 7</text>',
        '<text class="f-soft tiny" x="198" y="158">reads, line unknown</text>',
        '<text class="f-minus bold" x="8" y="190">thread 4</text>',
        '<text class="f-ink bold" x="152" y="108" text-anchor="middle">x[0]</text>',
        '<text class="f-soft tiny" x="296" y="36" text-anchor="end">time →</text>',
    ]


PICTURES = {
    "times": lambda name: times(((name, (1.0, 2.0)),)),
    "roofline": lambda name: roofline_chart(
        Roof(name, 1000.0, ((name, 8000.0),), name, name), (Point(name, 1.0, 500.0, True),)
    ),
    "occupancy": lambda name: occupancy_chart(((name, 24),), name, 64),
    "changes": lambda name: changes(((name, 2.0, False),)),
    "race": lambda name: race(Racer(name, name, 1), Racer(name, name, None), name),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_names_that_are_meant_to_do_harm_are_words(picture):
    markup = str(picture(NASTY))
    root = ElementTree.fromstring(markup)
    assert {element.tag for element in root.iter()} <= {"svg", "g", "title", "path", "text"}
    assert {name for element in root.iter() for name in element.attrib} <= {
        *("class", "viewBox", "role", "aria-label", "d", "x", "y", "transform", "text-anchor", "stroke-width")
    }
    assert HARMLESS.lower() in root.get("aria-label").lower()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u200b\u202e]", markup)
    assert "<script" not in markup
    assert "49" not in "".join(text.text for text in root.iter("text"))


def test_a_report_is_drawn_without_matplotlib():
    program = (
        "import sys; from evaluator.report import charts, html; charts.times((('submission', (1.0, 2.0)),));"
        "print([name for name in sys.modules if name.startswith('matplotlib')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
