import cmath
import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.report.charts import Point, Racer, Roof, access, changes, occupancy_chart, race, roofline_chart, times
from evaluator.report.svg import WIDTH

ROOF = Roof("H100", 3350.0, (("float32", 67_000.0),), "floating-point operations", "FLOP")
NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")
ALLOWED = {"x", "y", "d", "transform", "class", "text-anchor", "stroke-width", "stroke-dasharray"}
ALLOWED |= {"opacity", "fill-opacity", "stroke-opacity"}


def shapes(markup):
    """A picture's elements; each is whole, and looks only as the page's style sheet says."""
    root = ElementTree.fromstring(str(markup))
    assert root.get("role") == "img"
    assert root.get("aria-label")
    for element in root.iter():
        assert element.tag in {"svg", "g", "title", "path", "text"}
        assert element is root or set(element.attrib) <= ALLOWED
    assert "url(" not in str(markup)
    return root


def titles(root):
    return [element.text for element in root.iter("title")]


@pytest.mark.parametrize("samples", [(5.0,), (5.0,) * 30, (4.0, 5.0), (5.0, 5.1, 4.9, 80.0) + (5.0, 5.05) * 10])
def test_a_histogram_shows_every_sample_but_stray_ones(samples):
    root = shapes(times((("submission", samples),)))
    counted = sum(int(words.split(": ")[1].split()[0]) for words in titles(root))
    assert counted == len(samples) - sum(sample > 60 for sample in samples)
    for words in titles(root):
        low, high = map(float, words.split(" µs")[0].split(" to "))
        assert any(low - 1e-3 <= sample <= high + 1e-3 for sample in samples)


def test_two_histograms_share_one_axis():
    root = shapes(times((("submission", (1.0, 1.1, 1.2)), ("baseline", (2.0, 2.1, 2.2)))))
    assert "median 1.1 µs" in root.get("aria-label")
    first, second = ([e for e in root.iter("path") if e.get("class") == f"f-{name}"] for name in ("accent", "other"))
    rightmost = max(float(NUMBERS.findall(path.get("d"))[2]) for path in first)
    leftmost = min(float(NUMBERS.findall(path.get("d"))[0]) for path in second)
    assert rightmost < leftmost


@settings(max_examples=6, deadline=None)
@given(intensity=st.floats(1e-3, 1e4), share=st.floats(1e-4, 1.0), measured=st.booleans())
def test_a_kernel_lies_under_its_roof(intensity, share, measured):
    rate = share * min(intensity * 3350, 67_000)
    root = shapes(roofline_chart(ROOF, (Point("k", intensity, rate, measured),)))
    assert f"{share:.0%} of what the roof allows" in root.get("aria-label")
    assert ("(measured)" if measured else "(estimated)") in root.get("aria-label")
    (dot,) = [element for element in root if element.find("title") is not None]
    x, y = map(float, NUMBERS.findall(dot.find("path").get("d"))[:2])
    assert 40 < x < WIDTH
    assert 20 < y < 230


@pytest.mark.parametrize(("intensity", "share"), [(80, 1.0), (25, 1.0), (160, 0.97), (1.2, 1.0), (3, 1.0)])
def test_no_dot_lies_on_the_letters_of_a_roof(intensity, share):
    point = Point("k", intensity, share * min(intensity * 3350, 67_000), True)
    root = shapes(roofline_chart(ROOF, (point,)))
    (dot,) = [element for element in root if element.find("title") is not None]
    x, y = map(float, NUMBERS.findall(dot.find("path").get("d"))[:2])
    x += 5.5  # from its left edge
    label = next(text for text in root.iter("text") if text.text.startswith("float32"))
    right, base = float(label.get("x")), float(label.get("y"))
    assert not (right - 5 * len(label.text) - 5 < x < right + 5 and base - 14 < y < base + 8)
    slope = next(text for text in root.iter("text") if text.text.startswith("memory"))
    at, level, degrees = map(float, NUMBERS.findall(slope.get("transform")))
    turned = complex(x - at, y - level) * cmath.rect(1, -math.radians(degrees))  # along the words, and below them
    assert not (0 < turned.real < 5 * len(slope.text) and -12 < turned.imag < 4)


def test_what_limits_occupancy_stands_out():
    allowed = (("registers", 24), ("shared memory", 64), ("threads", 64), ("blocks", 256))
    root = shapes(occupancy_chart(allowed, "registers", 64))
    assert titles(root)[0] == "registers: room for 24 warps of 64"
    assert [text.text for text in root.iter("text") if "bold" in text.get("class", "")] == ["registers", "24"]
    assert "64+" in [text.text for text in root.iter("text")]


@pytest.mark.parametrize(
    ("space", "offsets", "lane_bytes", "words"),
    [
        ("global", range(0, 128, 4), 4, "32 lanes of 4 bytes: 4 sectors moved, 100% of their bytes used"),
        ("global", range(0, 32 * 1024, 1024), 4, "32 lanes of 4 bytes: 32 sectors moved, 12% of their bytes used"),
        ("global", range(4, 132, 4), 4, "32 lanes of 4 bytes: 5 sectors moved, 80% of their bytes used"),
        ("global", range(0, 512, 16), 16, "32 lanes of 16 bytes: 16 sectors moved, 100% of their bytes used"),
        ("global", (64, *[None] * 31), 4, "1 lane of 4 bytes: 1 sector moved, 12% of their bytes used"),
        ("shared", range(0, 128, 4), 4, "32 lanes of 4 bytes need one word from each at most of 32 banks"),
        ("shared", range(0, 4096, 128), 4, "32 lanes of 4 bytes need up to 32 words from one of 32 banks"),
        ("shared", [0] * 32, 4, "32 lanes of 4 bytes need one word from each at most of 32 banks"),
        ("shared", range(0, 256, 8), 4, "32 lanes of 4 bytes need up to 2 words from one of 32 banks"),
    ],
)
def test_a_warps_access(space, offsets, lane_bytes, words):
    root = shapes(access(space, tuple(offsets), lane_bytes))
    assert words in root.get("aria-label")
    assert sum(title.startswith("lane ") for title in titles(root)) == 32


OFFSETS = st.lists(st.one_of(st.none(), st.integers(0, 1 << 30)), min_size=32, max_size=32)


@settings(max_examples=5, deadline=None)
@given(offsets=OFFSETS, lane_bytes=st.sampled_from([1, 2, 4, 8, 16]), space=st.sampled_from(["global", "shared"]))
def test_any_access_can_be_drawn(offsets, lane_bytes, space):
    shapes(access(space, tuple(offsets), lane_bytes))


def test_changes_lie_on_either_side_of_none():
    root = shapes(
        changes(
            (("sectors", 0.25, True), ("registers", 2.0, False), ("conflicts", 0.0, True), ("spills", None, False))
        )
    )
    assert titles(root) == [
        "sectors, × 0.25, better",
        "registers, × 2, worse",
        "conflicts, gone, better",
        "spills, new, worse",
    ]
    boxes = [group.find("path").get("d") for group in root.iter("g")]
    edges = [sorted(float(x) for x in NUMBERS.findall(box)[::2]) for box in boxes]
    middle = edges[0][-1]
    assert [edge[0] < middle for edge in edges] == [True, False, True, False]
    assert edges[1][-1] - middle == pytest.approx((middle - edges[0][0]) / 2, abs=0.3)
    assert middle - edges[2][0] == pytest.approx(edges[3][-1] - middle, abs=0.3)


def test_hostile_names_are_text():
    nasty = "$\\frac{1}{0}$<script>&\x00\u202e"
    root = shapes(race(Racer(nasty, "writes", 1), Racer("thread 2", "reads", None), nasty))
    said = " ".join(text.text for text in root.iter("text"))
    assert "$\\frac{1}{0}$<script>&" in said
    assert r"\x00" in root.get("aria-label")
    assert "reads, line unknown" in said
