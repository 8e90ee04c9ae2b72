"""The pictures of a report: where the times lie, what bounds a kernel, how warps touch memory, who races with whom.

Each takes plain values and gives SVG for the inside of a page; the same values give the same picture, so that a page
that is looked at again costs nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final, Literal

from markupsafe import Markup

from evaluator.report.svg import COLOURS, WIDTH, Sheet, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEPT: Final = 256
"""Pictures that are remembered, of each kind."""
_BINS: Final = 36
_LANES: Final = 32
_SECTOR_BYTES: Final = 32
_MAX_ACROSS: Final = 32
"""Sectors or banks side by side."""


def long_axis(samples_us: Sequence[float]) -> float:
    """Where an axis of times should end: the longest, unless stray ones would press all others into one bar."""
    if len(samples_us) < 4:
        return max(samples_us)
    first, _, third = quantiles(samples_us, n=4)
    reach = third + 6 * max(third - first, 0.01 * third)
    return max(time_us for time_us in samples_us if time_us <= reach)


@lru_cache(KEPT)
def times(samples: tuple[tuple[str, tuple[float, ...]], ...]) -> Markup:
    """Histograms of raw times on one axis, microseconds; `samples`: a name and its times, the submission's first."""
    with drawing:
        low = min(min(times_us) for _, times_us in samples)
        high = max(long_axis(times_us) for _, times_us in samples)
        span = high - low or 0.02 * high
        start, step = low - 0.02 * span, 1.04 * span / _BINS
        sheet = Sheet(84 * len(samples) + 34)
        for row, (name, times_us) in enumerate(samples):
            tallies = [0] * _BINS
            for time_us in times_us:
                if time_us <= high:
                    tallies[min(int((time_us - start) / step), _BINS - 1)] += 1
            axes = sheet.axes(8, 26 + 84 * row, WIDTH - 16, 54)
            for i, tally in enumerate(tallies):
                if tally:
                    colour = COLOURS["other" if row else "accent"]
                    bar = axes.bar(start + i * step, tally, 0.88 * step, align="edge", color=colour)
                    launches = "1 launch" if tally == 1 else f"{tally} launches"
                    sheet.says(bar[0], f"{start + i * step:.5g} to {start + (i + 1) * step:.5g} µs: {launches}")
            middle = median(times_us)
            axes.plot((middle, middle), (0, max(tallies) or 1), color=COLOURS["ink"], linewidth=2)
            axes.set_xlim(start, start + _BINS * step)
            axes.set_ylim(0, max(tallies) or 1)
            axes.set_yticks([])
            axes.set_xticks([])
            said = f"{name.capitalize()}: {len(times_us)} launch{'es' * (len(times_us) > 1)}, median {middle:.4g} µs"
            sheet.figure.text(8 / WIDTH, 1 - (18 + 84 * row) / sheet.height, said, fontsize=12, color=COLOURS["ink"])
        ticks = _round_ticks(start, start + _BINS * step)
        axes.set_xticks(ticks, [f"{tick:.6g}" for tick in ticks])
        _unit(sheet, "microseconds")
        parts = [
            f"{name}: {len(t)} launches from {min(t):.5g} to {max(t):.5g} µs, median {median(t):.5g} µs"
            for name, t in samples
        ]
        return sheet.svg("Histogram of the raw times", "; ".join(parts))


def _round_ticks(low: float, high: float, most: int = 5) -> list[float]:
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= rough)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _unit(sheet: Sheet, text: str) -> None:
    sheet.figure.text((WIDTH - 8) / WIDTH, 4 / sheet.height, text, fontsize=10.5, color=COLOURS["soft"], ha="right")


@dataclass(frozen=True)
class Point:
    """A kernel on a roofline."""

    name: str
    intensity: float
    """Work for each byte that goes to or comes from memory."""
    rate: float
    """Work done, 10^9 a second."""
    measured: bool


@dataclass(frozen=True)
class Roof:
    """What a device gives at most (Williams, Waterman and Patterson, "Roofline", 2009)."""

    device: str
    memory_gb_s: float
    ceilings: tuple[tuple[str, float], ...]
    """Name and 10^9 a second, the highest last."""
    work: str
    """What is counted: `floating-point operations`, or `warp-instructions` where a kernel does none."""
    short: str
    """Its unit: `FLOP`."""


@lru_cache(KEPT)
def roofline_chart(roof: Roof, points: tuple[Point, ...]) -> Markup:
    """Work a second over work a byte, both logarithmic, with the roof that memory and the units are."""
    with drawing:
        top = max(rate for _, rate in roof.ceilings)
        ridge = top / roof.memory_gb_s
        left = min([0.3 * point.intensity for point in points] + [0.05 * ridge])
        right = max([4 * point.intensity for point in points] + [8 * ridge])
        low = min([0.3 * point.rate for point in points] + [0.3 * left * roof.memory_gb_s])
        sheet = Sheet(256)
        axes = sheet.axes(46, 28, WIDTH - 58, 190)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(left, right)
        axes.set_ylim(low, 2.2 * top)
        axes.minorticks_off()
        for axis, bounds, put in ((axes.xaxis, (left, right), "x"), (axes.yaxis, (low, 2.2 * top), "y")):
            ticks = _powers(*bounds)
            axis.set_ticks(ticks, [_short(tick) if put == "x" else _billions(tick) for tick in ticks])
            for tick in ticks:
                line = axes.axvline if put == "x" else axes.axhline
                line(tick, color=COLOURS["track"], linewidth=1, zorder=0)
        for name, rate in roof.ceilings:
            begin = rate / roof.memory_gb_s
            axes.plot((begin, right), (rate, rate), color=COLOURS["ink" if rate == top else "soft"], linewidth=1.8)
            above = rate * (2.2 * top / low) ** (6 / 190)
            said = f"{name}, {_billions(rate)}"
            axes.text(right, above, said, fontsize=10.5, color=COLOURS["soft"], ha="right")
        axes.plot((left, ridge), (left * roof.memory_gb_s, top), color=COLOURS["ink"], linewidth=1.8)
        slope = math.degrees(math.atan2(190 / math.log(2.2 * top / low), (WIDTH - 58) / math.log(right / left)))
        begin = math.exp(math.log(max(left, low / roof.memory_gb_s)) * 0.75 + math.log(ridge) * 0.25)
        above = begin * roof.memory_gb_s * (2.2 * top / low) ** (7 / 190)
        said = f"memory {roof.memory_gb_s:,.0f} GB/s"
        slanted = axes.text(begin, above, said, fontsize=10.5, color=COLOURS["soft"], rotation=slope)
        slanted.set_rotation_mode("anchor")
        for point in points:
            reach = min(point.intensity * roof.memory_gb_s, top)
            axes.plot((point.intensity,) * 2, (point.rate, reach), color=COLOURS["accent"], linewidth=1)
            _dot(sheet, axes, point, f"{point.name}: {_reached(roof, point)}")
        if len(points) == 1:
            _label(axes, points[0], f"{points[0].rate / reach:.0%} of the roof", left, right)
        sheet.figure.text(
            8 / WIDTH, 1 - 14 / sheet.height, f"{roof.short} a second", fontsize=10.5, color=COLOURS["soft"]
        )  # fmt: skip
        _unit(sheet, f"{roof.short} for each byte of device memory")
        told = "; ".join(f"{point.name}: {_reached(roof, point)}" for point in points)
        return sheet.svg(f"Roofline of {roof.device} in {roof.work}", told)


def _reached(roof: Roof, point: Point) -> str:
    reach = min(point.intensity * roof.memory_gb_s, max(rate for _, rate in roof.ceilings))
    how = "measured" if point.measured else "estimated"
    return (
        f"{point.intensity:.3g} {roof.short} for each byte, {point.rate:,.4g} billion {roof.short} a second ({how}), "
        f"{point.rate / reach:.0%} of what the roof allows"
    )


def _dot(sheet: Sheet, axes: "Axes", point: Point, words: str) -> None:
    """Filled where measured, a ring where estimated."""
    from matplotlib.patches import Circle
    from matplotlib.transforms import IdentityTransform

    x, y = axes.transData.transform((point.intensity, point.rate))
    fill = "accent" if point.measured else "card"
    dot = Circle((x, y), 5.5, facecolor=COLOURS[fill], edgecolor=COLOURS["accent"], linewidth=2.5)
    dot.set_transform(IdentityTransform())
    sheet.figure.add_artist(dot)
    dot.set_zorder(5)
    sheet.says(dot, words)


def _label(axes: "Axes", point: Point, words: str, left: float, right: float) -> None:
    far = point.intensity > math.sqrt(left * right)
    x, y = axes.transData.inverted().transform(
        axes.transData.transform((point.intensity, point.rate)) + ((-11, -4) if far else (11, -4))
    )
    axes.text(
        x, y, words, fontsize=12, weight="bold", color=COLOURS["accent"], ha="right" if far else "left"
    )  # fmt: skip


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten, or of a hundred where there are many."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    return [10.0**power for power in range(first, last + 1, 1 if last - first < 6 else 2)]


def _billions(number: float) -> str:
    """So many billions as `3.2 T` or `800 G`."""
    factor, letter = next(
        ((factor, letter) for factor, letter in ((1e6, "P"), (1e3, "T"), (1.0, "G")) if number >= factor), (1e-3, "M")
    )
    return f"{number / factor:.3g} {letter}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


@lru_cache(KEPT)
def occupancy_chart(allowed: tuple[tuple[str, int], ...], limited_by: str, most: int) -> Markup:
    """Warps that each resource of a multiprocessor has room for; `most` is what it holds at all."""
    with drawing:
        from matplotlib.patches import Rectangle

        sheet = Sheet(30 * len(allowed) + 26)
        left, width = 108.0, WIDTH - 108.0 - 36.0
        axes = sheet.axes(0, 0, WIDTH, sheet.height, bare=True)
        for row, (name, warps) in enumerate(allowed):
            top, bound = 6 + 30 * row, name == limited_by
            weight = "bold" if bound else "normal"
            colour = COLOURS["ink" if bound else "soft"]
            axes.text(left - 10, top + 14, name, fontsize=12, ha="right", color=colour, weight=weight)
            axes.add_patch(Rectangle((left, top), width, 20, color=COLOURS["track"], linewidth=0))
            shown = min(warps, most) / most * width
            bar = Rectangle((left, top), shown, 20, color=COLOURS["accent" if bound else "other"], linewidth=0)
            axes.add_patch(bar)
            sheet.says(bar, f"{name}: room for {warps} warps of {most}")
            said = f"{warps}" if warps <= most else f"{most}+"
            axes.text(left + width + 10, top + 14, said, fontsize=12, color=colour, weight=weight)
        axes.text(left, sheet.height - 6, "0", fontsize=10.5, color=COLOURS["soft"])
        end = f"{most} warps"
        axes.text(left + width, sheet.height - 6, end, fontsize=10.5, color=COLOURS["soft"], ha="right")
        told = ", ".join(f"{name} {warps}" for name, warps in allowed)
        return sheet.svg(f"Room for warps by resource, of {most}", f"{told}; limited by {limited_by}")


@lru_cache(KEPT)
def access(space: Literal["global", "shared"], offsets: tuple[int | None, ...], lane_bytes: int) -> Markup:
    """One request of a warp: which sectors of global memory, or banks of shared memory, its 32 lanes touch.

    `offsets` are the lanes' first bytes, counted from any border of 128 bytes; None for a lane that takes no part.
    """
    with drawing:
        return (_sectors if space == "global" else _banks)(offsets, lane_bytes)


def _lanes(sheet: Sheet, axes: "Axes", offsets: Sequence[int | None], lane_bytes: int) -> None:
    from matplotlib.patches import Rectangle

    axes.text(8, 18, f"32 lanes, {lane_bytes} bytes each", fontsize=12, color=COLOURS["ink"])
    for lane, offset in enumerate(offsets):
        idle = offset is None
        box = Rectangle((_column(lane), 26), 7, 14, color=COLOURS["track" if idle else "accent"], linewidth=0)
        axes.add_patch(box)
        said = "takes no part" if offset is None else f"bytes {offset} to {offset + lane_bytes - 1}"
        sheet.says(box, f"lane {lane}: {said}")


def _column(number: float) -> float:
    return 8 + number * (WIDTH - 16) / _LANES


def _sectors(offsets: Sequence[int | None], lane_bytes: int) -> Markup:
    from matplotlib.patches import Rectangle

    touched: dict[int, set[int]] = {}
    for offset in offsets:
        for byte in range(offset, offset + lane_bytes) if offset is not None else ():
            touched.setdefault(byte // _SECTOR_BYTES, set()).add(byte % _SECTOR_BYTES)
    order = sorted(touched)
    rows = max(1, math.ceil(len(order) / _MAX_ACROSS))
    per_row = math.ceil(len(order) / rows)
    width = min((WIDTH - 16) / max(per_row, 1), 41.0)
    sheet = Sheet(168 + 26 * (rows - 1))
    axes = sheet.axes(0, 0, WIDTH, sheet.height, bare=True)
    _lanes(sheet, axes, offsets, lane_bytes)
    start = (WIDTH - width * per_row) / 2
    place = {sector: (start + i % per_row * width, 104 + 26 * (i // per_row)) for i, sector in enumerate(order)}
    for lane, offset in enumerate(offsets):
        if offset is not None:
            x, y = place[offset // _SECTOR_BYTES]
            inside = (offset % _SECTOR_BYTES + lane_bytes / 2) / _SECTOR_BYTES
            ends = (_column(lane) + 3.5, x + 1 + min(inside, 1) * (width - 2))
            axes.plot(ends, (40, y), color=COLOURS["soft"], linewidth=0.7, alpha=0.7)
    for sector, (x, y) in place.items():
        used = touched[sector]
        box = Rectangle((x + 0.75, y), width - 1.5, 20, color=COLOURS["track"], linewidth=0)
        axes.add_patch(box)
        sheet.says(box, f"sector {sector}: {len(used)} of 32 bytes are used")
        for first, last in _runs(sorted(used)):
            scale = (width - 1.5) / _SECTOR_BYTES
            part = (x + 0.75 + first * scale, y)
            axes.add_patch(Rectangle(part, (last - first + 1) * scale, 20, color=COLOURS["accent"], linewidth=0))
    used_bytes = sum(map(len, touched.values()))
    share = used_bytes / (_SECTOR_BYTES * max(len(order), 1))
    sectors = "1 sector" if len(order) == 1 else f"{len(order)} sectors"
    said = f"{sectors} moved, {share:.0%} of their bytes used"
    axes.text(8, sheet.height - 12, said, fontsize=12, color=COLOURS["ink"])
    return sheet.svg("Which sectors of memory one warp touches", f"{_active(offsets)} of {lane_bytes} bytes: {said}")


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as first and last of each unbroken run."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _active(offsets: Sequence[int | None]) -> str:
    count = sum(offset is not None for offset in offsets)
    return "1 lane" if count == 1 else f"{count} lanes"


def _banks(offsets: Sequence[int | None], lane_bytes: int) -> Markup:
    from matplotlib.patches import Rectangle

    words: dict[int, list[int]] = {}
    for offset in offsets:
        for word in range(offset // 4, (offset + lane_bytes + 3) // 4) if offset is not None else ():
            if word not in words.setdefault(word % _LANES, []):
                words[word % _LANES].append(word)
    deepest = max(map(len, words.values()), default=0)
    shown = min(deepest, 32)
    tall = max(min(12.0, 72 / max(shown, 1)), 2.25)
    sheet = Sheet(150 + tall * shown)
    axes = sheet.axes(0, 0, WIDTH, sheet.height, bare=True)
    _lanes(sheet, axes, offsets, lane_bytes)
    for lane, offset in enumerate(offsets):
        if offset is not None:
            ends = (_column(lane) + 3.5, _column(offset // 4 % _LANES) + 3.5)
            axes.plot(ends, (40, 100), color=COLOURS["soft"], linewidth=0.7, alpha=0.7)
    for bank in range(_LANES):
        needed = words.get(bank, [])
        base = Rectangle((_column(bank), 100), 7, tall * max(shown, 1), color=COLOURS["track"], linewidth=0)
        axes.add_patch(base)
        sheet.says(base, f"bank {bank}: {len(needed)} word{'s' * (len(needed) != 1)}")
        for row in range(min(len(needed), shown)):
            colour = COLOURS["minus" if len(needed) > 1 else "accent"]
            box = Rectangle((_column(bank), 100 + tall * row), 7, tall * 0.8, color=colour, linewidth=0)
            axes.add_patch(box)
    bottom = 100 + tall * max(shown, 1)
    axes.text(8, bottom + 15, "bank 0", fontsize=10.5, color=COLOURS["soft"])
    axes.text(WIDTH - 8, bottom + 15, "bank 31", fontsize=10.5, color=COLOURS["soft"], ha="right")
    meet = "one word from each at most" if deepest <= 1 else f"up to {deepest} words from one"
    axes.text(8, sheet.height - 12, f"32 banks: {meet}", fontsize=12, color=COLOURS["ink"])
    return sheet.svg(
        "Which banks of shared memory one warp touches",
        f"{_active(offsets)} of {lane_bytes} bytes need {meet} of 32 banks",
    )


@lru_cache(KEPT)
def changes(ratios: tuple[tuple[str, float | None, bool], ...]) -> Markup:
    """By how much quantities changed, on a logarithmic scale around no change.

    `ratios`: name, after over before (None for what was 0 before), and whether that is better.
    """
    with drawing:
        from matplotlib.patches import Rectangle

        left, width = 122.0, WIDTH - 122.0 - 46.0
        sheet = Sheet(24 * len(ratios) + 24)
        axes = sheet.axes(0, 0, WIDTH, sheet.height, bare=True)
        reach = max([2.0, *(max(ratio, 1 / ratio) for _, ratio, _ in ratios if ratio)])
        words = [(name, _times(ratio), "better" if better else "worse") for name, ratio, better in ratios]
        middle = left + width / 2
        for row, (name, ratio, better) in enumerate(ratios):
            top = 6 + 24 * row
            share = 1.0 if ratio is None else math.log(ratio) / math.log(reach) if ratio else -1.0
            length = share * width / 2
            colour = COLOURS["good" if better else "bad"]
            bar = Rectangle((middle + min(length, 0), top), abs(length), 16, color=colour, linewidth=0)
            axes.add_patch(bar)
            sheet.says(bar, ", ".join(words[row]))
            axes.text(left - 8, top + 12, _cut(name, 19), fontsize=10.5, ha="right", color=COLOURS["ink"])
            axes.text(left + width + 6, top + 12, _times(ratio), fontsize=10.5, color=colour)
        axes.plot((middle, middle), (0, sheet.height - 18), color=COLOURS["soft"], linewidth=1)
        axes.text(middle, sheet.height - 4, "unchanged", fontsize=10.5, color=COLOURS["soft"], ha="center")
        told = "; ".join(", ".join(one) for one in words)
        return sheet.svg("What changed, after over before", told)


def _times(ratio: float | None) -> str:
    return "new" if ratio is None else f"× {ratio:.3g}" if ratio else "gone"


@dataclass(frozen=True)
class Racer:
    """One of two who race."""

    name: str
    """`thread 3 of block 0`."""
    does: str
    """`writes`."""
    line: int | None


@lru_cache(KEPT)
def race(first: Racer, second: Racer, element: str) -> Markup:
    """Two threads that meet at one element, in the order in which they were seen; nothing orders them."""
    with drawing:
        from matplotlib.patches import FancyArrowPatch, Rectangle

        sheet = Sheet(196)
        axes = sheet.axes(0, 0, WIDTH, 196, bare=True)
        for row, (racer, colour) in enumerate(((first, "accent"), (second, "minus"))):
            y, x = (42, 84) if row == 0 else (164, 186)
            axes.plot((8, WIDTH - 8), (y, y), color=COLOURS["line"], linewidth=2)
            name_y = y - 26 if row == 0 else y + 26
            axes.text(8, name_y, _cut(racer.name, 42), fontsize=12, color=COLOURS[colour], weight="bold")
            axes.add_patch(Rectangle((x - 6, y - 6), 12, 12, color=COLOURS[colour], linewidth=0, zorder=3))
            line = f"line {racer.line}" if racer.line else "line unknown"
            axes.text(x + 12, y - 6, f"{racer.does}, {line}", fontsize=10.5, color=COLOURS["soft"])
            target = (126, 88) if row == 0 else (164, 118)
            arrow = FancyArrowPatch(
                (x, y + (6 if row == 0 else -6)), target, arrowstyle="-|>,head_length=7,head_width=4", shrinkA=0,
                shrinkB=0, color=COLOURS[colour], linewidth=2, mutation_scale=1,
            )  # fmt: skip
            axes.add_patch(arrow)
        box = Rectangle((72, 88), 160, 30, facecolor=COLOURS["card"], edgecolor=COLOURS["ink"], linewidth=1.5)
        axes.add_patch(box)
        axes.text(WIDTH / 2, 108, _cut(element, 22), fontsize=12, color=COLOURS["ink"], ha="center", weight="bold")
        axes.text(WIDTH - 8, 34, "time →", fontsize=10.5, color=COLOURS["soft"], ha="right")
        told = "; then ".join(
            f"{racer.name} {racer.does} it{f' on line {racer.line}' if racer.line else ''}"
            for racer in (first, second)
        )
        return sheet.svg(f"Race for {element}", f"First {told}, and nothing orders the two")


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
