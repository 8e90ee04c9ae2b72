import html
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from sample_verdicts import (
    ALL,
    HOSTILE,
    SOURCE,
    compile_error,
    counted,
    hostile,
    incorrect,
    mismatch,
    passed,
    passed_on_gpu,
    raced,
    rejected,
    runtime_error,
    timing,
)

from common.contract import DeviceState, HazardWarning, Profile, Status
from evaluator.report.heat_map import shade
from evaluator.report.html import MAX_LINES, render, render_many
from evaluator.report.terminal import printable, which_are_wrong


class Page(HTMLParser):
    """What a browser would make of a page, as far as these tests ask."""

    VOID = ("meta", "br", "img", "link", "input", "hr")

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        # Elements that are closed in another order than they were opened would show here.
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)

    @property
    def words(self):
        return " ".join("".join(self.text).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.__name__)
def test_a_page_is_whole_and_needs_nothing_else(sample):
    verdict = sample()
    text = render(verdict, SOURCE, "kernel.cu")
    page = Page(text)
    assert page.open == []
    assert not {tag for tag, _ in page.elements} & {"script", "img", "link", "iframe", "object", "base", "form"}
    for _, attributes in page.elements:
        assert not {"src", "style", "srcset", "xlink:href"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert page.all("html") == [{"lang": "en"}]
    assert " ".join(printable(verdict.message).split()) in page.words
    assert verdict.status in page.words
    for svg in page.all("svg"):
        assert svg.get("aria-hidden") == "true" or (svg["role"] == "img" and svg["aria-label"])


def test_hostile_text_is_text():
    text = render(hostile(), HOSTILE + "\n" + SOURCE, HOSTILE)
    page = Page(text)
    assert page.open == []
    assert "<img" not in text
    assert "<svg onload" not in text
    assert "{{ 7*7 }}" in page.words
    assert page.words.count("<img src=x onerror=alert(1)>") >= 10
    assert r"\x1b[31mred" in page.words
    assert r"\u202eevil\x00" in page.words
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)


def test_what_costs_time_is_told_with_links_to_its_lines():
    text = render(counted(), SOURCE)
    words = Page(text).words
    for said in (
        "71%of the time Uncoalesced accessblock_sums, line 10 Its loads touch 32 sectors a warp",
        "Let neighbouring threads (threadIdx.x) touch neighbouring elements.",
        "4%of the time Low occupancyblock_sums 24 of 64 warps fit.",
        "blocks of 256 threads: 38%, 24 of 64 warps, limited by registers",
        "With 64 registers a thread instead of 72 there is room for 32 warps instead of 24 (50%).",
        "Estimated, not measured, on H100. The roof above it is memory's: it leaves room for ",
        "The most expensive request of one warp where block_sums loads; "
        "in all 114,688 sectors more than its bytes need.",
        "Counted by the simulator at rows = 128, cols = 1,024",
        "block_sums128 blocks of 256",
    ):
        assert said in words
    assert '<a href="#v1-10">line 10</a>' in text
    assert text.index("Uncoalesced access") < text.index("Low occupancy")
    for picture in (
        "Roofline of H100",
        "Room for warps by resource",
        "Which sectors of memory",
        "Which banks of shared",
    ):
        assert f'aria-label="{picture}' in text
    assert len(text) < 120_000


def test_heat_by_line_and_the_same_as_numbers():
    text = render(counted(), SOURCE)
    hot = line_of_source(text, 10)
    assert '<span class="q q-instructions w5" title="40,000 warp-instructions, 100% of the lanes">67%</span>' in hot
    assert '<span class="q q-sectors w5" title="131,072 sectors in 4,096 requests, 12% used">100%</span>' in hot
    assert "q-conflicts w5" in line_of_source(text, 14)
    assert 'class="q q-' not in line_of_source(text, 4)
    boxes = Page(text).all("input")
    assert [box["value"] for box in boxes] == ["cost", "instructions", "sectors", "conflicts", "divergence"]
    assert ["checked" in box for box in boxes] == [True, False, False, False, False]
    for box in boxes:
        assert f'input[value="{box["value"]}"]:checked) .q-{box["value"]}' in text
    assert "1,500 of 9,000 branches part a warp" in Page(text).words
    assert 'type="radio"' not in render(passed(), SOURCE)


def test_what_nothing_promises_stands_with_the_verdict_and_only_there():
    said = "k: thread 0 of block 0 reads red[256] on line 3, one past the end: zero[0] lies there"
    hazard = HazardWarning(kind="array_overrun", message=said, line=3, remedy="Make red larger.")
    verdict = passed()
    seen = verdict.correctness.model_copy(
        update={"hazards": (hazard,), "warnings": (f"{said}. Make red larger.", "another thing")}
    )
    words = Page(render(verdict.model_copy(update={"correctness": seen}), SOURCE)).words
    assert words.count(said) == 1
    assert words.index(said) < words.index("Reward") < words.index("another thing")


def test_a_race_is_drawn_in_the_order_in_which_it_was_seen():
    text = render(raced(), SOURCE)
    (said,) = re.findall(r'aria-label="(Race for[^"]*)"', text)
    assert said == (
        "Race for partial[128]. First thread 0 of block 0 reads it on line 14; then thread 128 of block 0 writes it "
        "on line 11, and nothing orders the two"
    )
    assert "<code>__syncthreads()</code> between line 11 and line 14" in text


def test_what_the_gpus_profiler_read_is_shown():
    words = Page(render(passed_on_gpu(), SOURCE)).words
    for said in (
        "Occupancy reached71%",
        "Multiprocessors, of their peak34%",
        "Device memory, of its peak62%",
        "Counted by the GPU's profiler at rows = 128, cols = 1,024",
        "Not measured: GPU counters of scale",
        "Measured on NVIDIA H100 80GB HBM3",
        "Counts are those of a smaller run, scaled",
    ):
        assert said in words


PARTS = ("evidence", "estimate", "occupancy", "pitfalls", "lines", "arch", "patterns", "all")


@pytest.mark.parametrize("missing", PARTS)
def test_a_report_does_without_any_of_its_parts(missing):
    verdict = counted()
    profile = verdict.profile
    (launch,) = profile.evidence.launches
    bare = {
        "lines": profile.evidence.model_copy(update={"launches": (launch.model_copy(update={"lines": ()}),)}),
        "patterns": profile.evidence.model_copy(
            update={
                "launches": (
                    launch.model_copy(
                        update={"lines": tuple(line.model_copy(update={"patterns": ()}) for line in launch.lines)}
                    ),
                )
            }
        ),
    }
    if missing in bare:
        changed = {"profile": profile.model_copy(update={"evidence": bare[missing]})}
    elif missing == "arch":
        changed = {"compile": verdict.compile.model_copy(update={"arch": None})}
    elif missing == "all":
        changed = {"profile": Profile(), "compile": None}
    else:
        empty = None if missing in ("evidence", "estimate") else ()
        changed = {"profile": profile.model_copy(update={missing: empty})}
    text = render(verdict.model_copy(update=changed), SOURCE)
    assert Page(text).open == []
    assert len(re.findall('<svg class="picture"', text)) == {
        "evidence": 1, "estimate": 3, "occupancy": 3, "pitfalls": 4, "lines": 2, "arch": 3, "patterns": 2, "all": 0
    }[missing]  # fmt: skip


def line_of_source(text, number):
    """The list item of one source line."""
    return re.search(rf'<li[^>]*><code><span class="no">{number}</span>.*?</li>', text, re.S).group()


@pytest.mark.parametrize(
    ("sample", "line", "remark"),
    [
        (compile_error, 10, 'identifier "xs" is undefined'),
        (runtime_error, 10, "reads 4 bytes at element 131072 of x"),
        (rejected, 9, "can tell that it is being timed"),
    ],
)
def test_what_decided_stands_beside_its_line(sample, line, remark):
    text = render(sample(), SOURCE)
    item = line_of_source(text, line)
    assert remark in html.unescape(item)
    assert 'class="decisive"' in item
    assert text.count('class="decisive"') == 1
    shown = html.unescape(re.sub(r"<div.*?</div>|<[^>]*>", "", item))
    assert shown == str(line) + SOURCE.splitlines()[line - 1]


def test_the_source_is_shown_as_it_is():
    for source in (SOURCE, "\n\n  x\n", "/* never closed\n\n", "a\tb\n'\n\"\n", "one"):
        text = render(passed(), source)
        for number, line in enumerate(source.splitlines(), 1):
            shown = html.unescape(re.sub(r"<[^>]*>", "", line_of_source(text, number)))
            assert shown == f"{number}{line}"


def test_a_remark_without_a_line_of_the_source_is_not_lost():
    assert 'identifier "xs" is undefined' in Page(render(compile_error(), "one line")).words
    assert "The source is empty." in Page(render(compile_error(), "")).words


def test_a_long_source_is_shown_around_its_remarks():
    source = "\n" * (MAX_LINES * 4) + "last\n"
    verdict = runtime_error()
    fault = verdict.correctness.fault.model_copy(update={"line": MAX_LINES * 3})
    moved = verdict.model_copy(
        update={"correctness": verdict.correctness.model_copy(update={"fault": fault})},
    )
    text = render(moved, source)
    assert "decisive" in line_of_source(text, MAX_LINES * 3)
    assert text.count('<span class="no">') < 400
    assert "lines are not shown" in text


@pytest.mark.parametrize(
    ("share", "step"), [(0.0, 0), (0.01, 1), (0.1, 1), (0.11, 2), (0.5, 3), (0.51, 4), (0.75, 4), (0.76, 5), (1.0, 5)]
)
def test_shades_of_the_heat_map(share, step):
    assert shade(share) == step


def test_a_count_of_wrong_elements_is_said_once():
    shown = mismatch()
    said = shown.model_copy(update={"count": 37, "wrong_count": 19, "pattern": "19 of 37 elements are wrong"})
    assert which_are_wrong(said) == "19 of 37 elements are wrong"
    other = said.model_copy(update={"pattern": "only row 3 is wrong"})
    assert which_are_wrong(other) == "19 of 37 elements are wrong: only row 3 is wrong"


def test_the_heat_map_shows_every_cell_with_wrong_elements():
    text = render(incorrect(), SOURCE)
    wrong = sum(share > 0 for row in mismatch().heat for share in row)
    titles = re.findall(r"<title>(rows [^<]*)</title>", text)
    assert len(titles) == wrong > 100
    # 1200 rows in 48 cells are 25 a cell; the last cell ends at the last element.
    assert titles[-1].startswith("rows 1175 to 1199, columns 502 to 512: ")
    words = Page(text).words
    for label in ("1,199", "512", "row", "column", "worst element", "up to 25%"):
        assert label in words


@pytest.mark.parametrize(
    ("index", "shape", "heat", "words"),
    [
        ((7,), (8,), ((0.0, 0.0, 0.0, 0.5),), "elements 6 to 7: 50% wrong"),
        ((7,), (), ((0.0, 0.0, 0.0, 0.5),), "cell 0, 3: 50% wrong"),
        ((1, 1, 3), (2, 2, 4), ((0.0, 0.0), (0.0, 1.0)), "rows 2 to 3, columns 2 to 3: 100% wrong"),
        ((0,), (1,), ((1.0,),), "elements 0 to 0: 100% wrong"),
    ],
)
def test_heat_maps_of_other_shapes(index, shape, heat, words):
    verdict = incorrect()
    trial = verdict.correctness.trials[-1]
    moved = trial.mismatch.model_copy(update={"index": index, "shape": shape, "heat": heat})
    correctness = verdict.correctness.model_copy(
        update={"trials": (trial.model_copy(update={"mismatch": moved}),)},
    )
    assert words in render(verdict.model_copy(update={"correctness": correctness}), SOURCE)


def test_everything_that_was_measured_is_told():
    words = Page(render(passed_on_gpu(), SOURCE)).words
    for said in (
        "1.55 to 1.69 at 95%, over PyTorch 2.11.0 eager: torch.sum(x, dim=1)",
        "limited by registers",
        "scale<float, 4> spills registers to memory",
        "pointless comparison of unsigned integer with zero",
        "-std=c++17 -O3 -lineinfo",
        "3f" * 32,
        "1.62 times the speed of PyTorch 2.11.0 eager: torch.sum(x, dim=1), between 1.55 and 1.69",
        "all samples that 2 evaluations of this program took",
        "SOL score 0.702",
        "3 of 60 timed launches",
        "27.9 µs, with the launch",
        "246.2 µs, with waking another process",
        "multiprocessors 1,755 of 1,980 MHz, memory 2,619 of 2,619 MHz",
        "Held down bypower cap",
        "Note: The clocks were held down",
    ):
        assert said in words
    for term in passed_on_gpu().reward.terms:
        assert term.explanation in words
        assert term.name.replace("_", " ") in words


def timed(**changes):
    return passed_on_gpu().model_copy(update={"timing": timing(**changes)})


def test_times_are_drawn_and_what_is_not_drawn_is_said():
    text = render(timed(samples_us=(5.0, 5.1, 4.9, 80.0) + (5.0, 5.05) * 10, baseline_samples_us=(6.0,) * 9), SOURCE)
    (drawn,) = re.findall(r'aria-label="(Histogram of the raw times[^"]*)"', text)
    assert "submission: 24 launches from 4.9 to 80 µs, median 5.025 µs" in drawn
    assert "baseline: 9 launches" in drawn
    assert "1 of the submission's 24 lie further right, the longest at 80 µs" in Page(text).words


def test_a_timing_with_nothing_but_its_numbers_is_shown():
    bare = {"samples_us": (), "baseline_samples_us": (), "notes": (), "transfer_us": None, "pooled_evaluations": 1}
    bare |= dict.fromkeys(("floor_us", "sol_us", "sol_share", "sol_score", "bandwidth_share"))
    text = render(timed(**bare, device=DeviceState(name="NVIDIA Mystery")), SOURCE)
    assert "Histogram" not in text
    words = Page(text).words
    assert "multiprocessors not known, memory not known" in words
    assert "Held down bynot known" in words
    assert "peed of light" not in words


def test_a_slow_kernel_is_told_how_far_it_is_from_the_speed_of_light():
    assert "It takes 4 times as long as this device needs" in Page(render(timed(sol_share=0.25), SOURCE)).words
    assert "as long as this device needs" not in Page(render(timed(sol_share=0.6), SOURCE)).words


def test_the_bars_of_times_are_in_proportion():
    pattern = r'class="(fill|other|light)" width="([\d.]+)%" height="100%" rx="3"/></svg><span[^>]*>([\d.]+) µs'
    bars = [(kind, float(percent), float(us)) for kind, percent, us in re.findall(pattern, render(timed(), SOURCE))]
    assert [(kind, us) for kind, _, us in bars] == [("fill", 18.4), ("other", 29.8), ("light", 10.02)]
    for _, percent, us in bars:
        assert percent == pytest.approx(us / 29.8 * 100, abs=0.06)


def test_the_bars_of_a_reward_stay_inside_their_track():
    text = render(passed_on_gpu(), SOURCE)
    bars = re.findall(r'class="(?:fill|minus)" x="([\d.]+)%" width="([\d.]+)%"', text)
    assert len(bars) == len(passed_on_gpu().reward.terms)
    assert all(float(x) + float(width) <= 100.01 for x, width in bars)


def test_many_verdicts_on_one_page():
    text = render_many([(f"{sample.__name__}.cu", sample(), SOURCE) for sample in ALL])
    page = Page(text)
    assert page.open == []
    links = [a["href"] for a in page.all("a")]
    anchors = [f"#{attributes['id']}" for _, attributes in page.elements if "id" in attributes]
    assert links[: len(ALL)] == [f"#v{number}" for number in range(1, len(ALL) + 1)]
    assert len(set(anchors)) == len(anchors)
    assert set(links) <= set(anchors)
    names = [box["name"] for box in page.all("input")]
    assert len(set(names)) == 3
    assert set(names) <= {f"{anchor.removeprefix('#')}-heat" for anchor in anchors}
    assert Page(render_many([])).open == []


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# A headless window cannot be narrower than about 500 px, so the page stands in a frame of 360 px. As `srcdoc` it is
# of the same origin, so that the page around it may measure it. The frame's own policy forbids scripts all the same.
FRAME = """<!doctype html><title>measuring</title>
<iframe id="frame" width="{width}" height="800" style="border:0" srcdoc="{page}"></iframe>
<script>
document.getElementById("frame").addEventListener("load", event => {{
  const page = event.target.contentDocument, root = page.documentElement;
  const wide = [...page.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > {width} + 1
    && !e.closest(".scroll, .source, .printed"));
  document.title = ["measured", root.clientWidth, root.scrollWidth, wide.length,
    page.defaultView.getComputedStyle(page.querySelector("main")).maxWidth].join(" ");
}});
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [360, 1100])
@pytest.mark.parametrize("name", ["incorrect", "counted", "passed_on_gpu", "hostile", "many"])
def test_a_real_browser_shows_it_without_errors_or_overflow(name, width, tmp_path):
    if name == "many":
        text = render_many([(f"{sample.__name__}.cu", sample(), SOURCE) for sample in ALL])
    else:
        text = render({s.__name__: s for s in ALL}[name](), (HOSTILE + "\n") * 2 + SOURCE, "x" * 90 + ".cu")
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(width=width, page=html.escape(text)))
    command = [CHROMIUM, "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--enable-logging=stderr"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--v=0"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1300,900", "--dump-dom", frame.as_uri()]
    if os.geteuid() == 0:
        command.append("--no-sandbox")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    measured = re.search(r"<title>measured (\d+) (\d+) (\d+) (\S+)</title>", done.stdout)
    assert measured, done.stderr
    client, scroll, wide = map(int, measured.groups()[:3])
    # A frame of this width holds the page without scrolling, and no element reaches out of it.
    assert client in range(width - 20, width + 1)
    assert scroll <= client
    assert wide == 0
    # The style sheet was let in by its hash: without it there would be no largest width.
    assert measured.group(4) == "992px"
    assert "CONSOLE" not in done.stderr


def test_a_trial_that_a_fault_stopped_says_so_and_quotes_are_in_monospace():
    broken = runtime_error()
    page = render(broken, SOURCE, "mine.cu")
    assert "stopped by a fault" in page
    assert "<title>runtime_error: mine.cu · Assay</title>" in page
    quoting = broken.model_copy(update={"message": "It is wrong:\n    3 | y[i] = 1;"})
    assert '<pre class="quoted">    3 | y[i] = 1;</pre>' in render(quoting, SOURCE)


def test_what_is_wrong_has_its_source_before_what_limits_it():
    right, wrong = counted(), counted().model_copy(update={"status": Status.RUNTIME_ERROR})
    titles = [re.findall(r"<h2>(.*?)</h2>", render(each, SOURCE, "kernel.cu")) for each in (right, wrong)]
    order = [[title for title in each if title in ("What limits it", "Source")] for each in titles]
    assert order == [["What limits it", "Source"], ["Source", "What limits it"]]
