"""The pictures of a report: where the times lie, what bounds a kernel, how warps touch memory, who races with whom.

Each takes plain values and gives SVG for the inside of a page: what it shows is worked out here, how it is laid out
stands in its template. The same values give the same picture, so a page that is looked at again costs nothing.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from statistics import median, quantiles
from typing import Final, Literal

from markupsafe import Markup

from evaluator.report.svg import WIDTH, Scale, draw

KEPT: Final = 256
"""Pictures that are remembered, of each kind."""
_BINS: Final = 36
_LANES: Final = 32
"""Of a warp; shared memory has as many banks."""
_SECTOR_BYTES: Final = 32
_MAX_ACROSS: Final = 32
"""Sectors side by side."""


def long_axis(samples_us: Sequence[float]) -> float:
    """Where an axis of times should end: the longest, unless stray ones would press all others into one bar."""
    if len(samples_us) < 4:
        return max(samples_us)
    first, _, third = quantiles(samples_us, n=4)
    reach = third + 6 * max(third - first, 0.01 * third)
    return max(time_us for time_us in samples_us if time_us <= reach)


@dataclass(frozen=True)
class _Histogram:
    words: str
    bins: tuple[tuple[float, float, str], ...]
    """Where one begins, in microseconds; its share of the tallest; what it holds."""
    median_us: float


@lru_cache(KEPT)
def times(samples: tuple[tuple[str, tuple[float, ...]], ...]) -> Markup:
    """Histograms of raw times on one axis, microseconds; `samples`: a name and its times, the submission's first."""
    low = min(min(times_us) for _, times_us in samples)
    high = max(long_axis(times_us) for _, times_us in samples)
    span = high - low or 0.02 * high
    x = Scale(low - 0.02 * span, low + 1.02 * span, 8, WIDTH - 8)
    rows = [_histogram(name, times_us, high, x) for name, times_us in samples]
    told = "; ".join(
        f"{name}: {len(t)} launches from {min(t):.5g} to {max(t):.5g} µs, median {median(t):.5g} µs"
        for name, t in samples
    )
    bin_width, ticks = (WIDTH - 16) / _BINS, _round_ticks(x.low, x.high)
    return draw("times", f"Histogram of the raw times. {told}", rows=rows, x=x, bin_width=bin_width, ticks=ticks)


def _histogram(name: str, times_us: Sequence[float], high: float, x: Scale) -> _Histogram:
    step = (x.high - x.low) / _BINS
    tallies = Counter(int((time_us - x.low) / step) for time_us in times_us if time_us <= high)
    most = max(tallies.values())
    bins = []
    for start_us, tally in sorted((x.low + number * step, tally) for number, tally in tallies.items()):
        launches = "1 launch" if tally == 1 else f"{tally} launches"
        bins.append((start_us, tally / most, f"{start_us:.5g} to {start_us + step:.5g} µs: {launches}"))
    median_us = median(times_us)
    launches = f"{len(times_us)} launch{'es' * (len(times_us) > 1)}"
    return _Histogram(f"{name.capitalize()}: {launches}, median {median_us:.4g} µs", tuple(bins), median_us)


def _round_ticks(low: float, high: float, most: int = 5) -> list[float]:
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= rough)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


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

    @property
    def top(self) -> float:
        """The highest ceiling."""
        return max(rate for _, rate in self.ceilings)

    @property
    def ridge(self) -> float:
        """The intensity from which on memory is no limit."""
        return self.top / self.memory_gb_s

    def over(self, intensity: float) -> float:
        """The highest rate at an intensity."""
        return min(intensity * self.memory_gb_s, self.top)


@lru_cache(KEPT)
def roofline_chart(roof: Roof, points: tuple[Point, ...]) -> Markup:
    """Work a second over work a byte, both logarithmic, with the roof that memory and the units are."""
    left = min([0.3 * point.intensity for point in points] + [0.05 * roof.ridge])
    right = max([4 * point.intensity for point in points] + [8 * roof.ridge])
    low = min([0.3 * point.rate for point in points] + [0.3 * left * roof.memory_gb_s])
    x = Scale(left, right, 46, WIDTH - 12, logarithmic=True)
    y = Scale(low, 2.2 * roof.top, 218, 28, logarithmic=True)
    dots = [(point, f"{point.name}: {_reached(roof, point)}") for point in points]
    ceilings = sorted(roof.ceilings, key=lambda ceiling: -ceiling[1])
    slope = math.atan2(y(roof.over(left)) - y(roof.top), x(roof.ridge) - x.start)
    return draw(
        "roofline",
        f"Roofline of {roof.device} in {roof.work}. {'; '.join(words for _, words in dots)}",
        roof=roof,
        x=x,
        y=y,
        dots=dots,
        ceilings=[(f"{name}, {_billions(rate)}", rate) for name, rate in ceilings],
        across=[(tick, _short(tick)) for tick in _powers(x)],
        upward=[(tick, _billions(tick)) for tick in _powers(y)],
        degrees=math.degrees(slope),
    )


def _reached(roof: Roof, point: Point) -> str:
    how = "measured" if point.measured else "estimated"
    return (
        f"{point.intensity:.3g} {roof.short} for each byte, {point.rate:,.4g} billion {roof.short} a second ({how}), "
        f"{point.rate / roof.over(point.intensity):.0%} of what the roof allows"
    )


def _powers(scale: Scale) -> list[float]:
    """Powers of ten, or of a hundred where there are many."""
    first, last = math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high))
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
    told = ", ".join(f"{name} {warps}" for name, warps in allowed)
    words = f"Room for warps by resource, of {most}. {told}; limited by {limited_by}"
    return draw("occupancy", words, allowed=allowed, limited_by=limited_by, most=most)


@dataclass(frozen=True)
class _Sector:
    x: float
    y: float
    used: tuple[tuple[int, int], ...]
    """First byte and length of each unbroken run that the lanes need."""
    words: str


@lru_cache(KEPT)
def access(space: Literal["global", "shared"], offsets: tuple[int | None, ...], lane_bytes: int) -> Markup:
    """One request of a warp: which sectors of global memory, or banks of shared memory, its 32 lanes touch.

    `offsets` are the lanes' first bytes, counted from any border of 128 bytes; None for a lane that takes no part.
    """
    active = sum(offset is not None for offset in offsets)
    who = f"{active} lane{'s' * (active != 1)} of {lane_bytes} bytes"
    return (_sectors if space == "global" else _banks)(who, offsets, lane_bytes)


def _sectors(who: str, offsets: Sequence[int | None], lane_bytes: int) -> Markup:
    touched: dict[int, set[int]] = {}
    for offset in offsets:
        for byte in range(offset, offset + lane_bytes) if offset is not None else ():
            touched.setdefault(byte // _SECTOR_BYTES, set()).add(byte % _SECTOR_BYTES)
    rows = max(1, math.ceil(len(touched) / _MAX_ACROSS))
    per_row = max(1, math.ceil(len(touched) / rows))
    pitch = min((WIDTH - 16) / per_row, 41.0)
    left, byte_width = (WIDTH - pitch * per_row) / 2 + 0.75, (pitch - 1.5) / _SECTOR_BYTES
    sectors = {}
    for place, (number, used) in enumerate(sorted(touched.items())):
        x, y = left + place % per_row * pitch, 104 + 26 * (place // per_row)
        words = f"sector {number}: {len(used)} of 32 bytes are used"
        sectors[number] = _Sector(x, y, tuple(_runs(used)), words)

    def target(offset: int) -> tuple[float, float]:
        sector = sectors[offset // _SECTOR_BYTES]
        middle = min(offset % _SECTOR_BYTES + lane_bytes / 2, _SECTOR_BYTES)
        return sector.x + middle * byte_width, sector.y

    share = sum(map(len, touched.values())) / (_SECTOR_BYTES * max(len(touched), 1))
    summary = f"{len(touched)} sector{'s' * (len(touched) != 1)} moved, {share:.0%} of their bytes used"
    return draw(
        "sectors",
        f"Which sectors of memory one warp touches. {who}: {summary}",
        lanes=[(offset, None if offset is None else target(offset)) for offset in offsets],
        lane_bytes=lane_bytes,
        sectors=sectors.values(),
        byte_width=byte_width,
        rows=rows,
        summary=summary,
    )


def _runs(numbers: set[int]) -> Iterator[tuple[int, int]]:
    """First number and length of each unbroken run."""
    for first in sorted(number for number in numbers if number - 1 not in numbers):
        yield first, next(length for length in count(1) if first + length not in numbers)


def _banks(who: str, offsets: Sequence[int | None], lane_bytes: int) -> Markup:
    needed: list[set[int]] = [set() for _ in range(_LANES)]
    for offset in offsets:
        for word in range(offset // 4, (offset + lane_bytes + 3) // 4) if offset is not None else ():
            needed[word % _LANES].add(word)
    depths = list(map(len, needed))
    meet = f"up to {max(depths)} words from one" if max(depths) > 1 else "one word from each at most"
    return draw(
        "banks",
        f"Which banks of shared memory one warp touches. {who} need {meet} of 32 banks",
        lanes=[(offset, None if offset is None else (11.5 + 9 * (offset // 4 % _LANES), 100)) for offset in offsets],
        lane_bytes=lane_bytes,
        depths=depths,
        summary=f"32 banks: {meet}",
    )


@dataclass(frozen=True)
class _Change:
    name: str
    times: str
    better: bool
    end: float
    """Of its bar, which begins where nothing changed."""

    @property
    def words(self) -> str:
        return f"{self.name}, {self.times}, {'better' if self.better else 'worse'}"


@lru_cache(KEPT)
def changes(ratios: tuple[tuple[str, float | None, bool], ...]) -> Markup:
    """By how much quantities changed, on a logarithmic scale around no change.

    `ratios`: name, after over before (None for what was 0 before), and whether that is better.
    """
    reach = max([2.0, *(max(ratio, 1 / ratio) for _, ratio, _ in ratios if ratio)])
    x = Scale(1 / reach, reach, 122, WIDTH - 58, logarithmic=True)
    rows = []
    for name, ratio, better in ratios:
        end = x.end if ratio is None else x(ratio) if ratio else x.start
        rows.append(_Change(name, "new" if ratio is None else f"× {ratio:.3g}" if ratio else "gone", better, end))
    told = "; ".join(row.words for row in rows)
    return draw("changes", f"What changed, after over before. {told}", rows=rows, middle=x(1))


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
    told = "; then ".join(
        f"{racer.name} {racer.does} it{f' on line {racer.line}' if racer.line else ''}" for racer in (first, second)
    )
    words = f"Race for {element}. First {told}, and nothing orders the two"
    return draw("race", words, first=first, second=second, element=element)
