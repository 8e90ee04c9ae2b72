"""When the referee may stop launching: as soon as more launches would not change what the caller wants to know.

Sources: the interval of a median from order statistics, Le Boudec, "Performance Evaluation of Computer and
Communication Systems" (2010), chapter 2; stopping by its width, Hoefler and Belli, "Scientific Benchmarking of
Parallel Computing Systems" (SC 2015).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from common.contract import RewardName, Settings
from common.reward import reward_if_right

MIN_LAUNCHES: Final = 10
"""Fewer say too little about a median; fewer are timed only where the time is up, or little is to be had."""
MAX_LAUNCHES: Final = 200
FEWEST_LAUNCHES: Final = 6
"""The range of six samples holds the median with 1 - 2 / 2^6 = 97 %, that of five with 94 %."""
_SECONDS_US: Final = 1e6
"""A launch that takes so long holds the GPU for what a thousand evaluations a minute have; its own noise is small
beside it. Each of them is verified."""
_SLOW: Final = 0.05
"""A speedup below which a kernel is clearly slow, and needs no more than six launches."""
_SLOW_FROM: Final = 0.1
_SLOW_PRECISION: Final = 0.1
"""From which speedup down, and how far, a speedup is less precise: as exact as that of a kernel with `_SLOW_FROM`, in
units of the baseline's speed. A hundredth of 0.005 is nothing that anybody goes by; a tenth tells a kernel from its
next version."""
_LITTLE: Final = 0.05
"""Reward that is not worth a forgery: launches are verified in secret, every third or fourth of the first
ones, so that six show a forger more seldom than ten."""

_Z: Final = 1.959964


@dataclass(frozen=True)
class StoppingRule:
    """What the caller asked for: either precision is enough."""

    most: int = MAX_LAUNCHES
    """Launches after which it ends in any case."""
    precision: float = 0.01
    """Of the speedup, as a share of it: half of its 95 % interval. Of one below 0.1 it is that share of 0.1, and at
    most a tenth of the speedup."""
    reward_precision: float | None = None
    """Of the reward, in its own units: half of its 95 % interval, as far as that comes from the speedup."""
    reward: RewardName = RewardName.WEIGHTED
    target_speedup: float = 2.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            settings.max_launches,
            settings.timing_precision,
            settings.reward_precision,
            settings.reward,
            settings.target_speedup,
        )

    def met(self, event_us: Sequence[float], baseline_us: Sequence[float]) -> bool:
        """Whether enough launches were made. Costs two sorts.

        The half-widths of both medians' intervals, as shares of the medians, give that of the speedup: the root of
        the sum of their squares.
        """
        launches = min(len(event_us), len(baseline_us))
        if len(event_us) >= self.most:
            return True
        if launches >= FEWEST_LAUNCHES and float(np.median(event_us)) >= _SECONDS_US:
            return True
        if launches < FEWEST_LAUNCHES:
            return False
        width = math.hypot(_half_width(event_us), _half_width(baseline_us))
        if not math.isfinite(width):
            return False
        speedup = float(np.median(baseline_us)) / float(np.median(event_us))
        slow = speedup * (1 + width) <= _SLOW
        if (launches >= MIN_LAUNCHES or slow) and width <= self._wanted_width(speedup):
            return True
        return self.reward_precision is not None and self._reward_known(speedup, width, launches)

    def sure_launches(self, event_us: Sequence[float], baseline_us: Sequence[float]) -> int:
        """How many launches there will hardly be fewer of, as far as these times tell."""
        event, baseline = float(np.median(event_us)), float(np.median(baseline_us))
        few = self.reward_precision is not None or event >= _SECONDS_US or baseline <= _SLOW * event
        return FEWEST_LAUNCHES if few else min(2 * MIN_LAUNCHES, self.most)

    def baseline_known(self, event_us: Sequence[float], baseline_us: Sequence[float]) -> bool:
        """Whether the baseline is known so well that the speedup's interval depends on the launches alone: its own is
        at most half as wide as that of the speedup should be.
        """
        if len(baseline_us) < FEWEST_LAUNCHES:
            return False
        speedup = float(np.median(baseline_us)) / float(np.median(event_us))
        return _half_width(baseline_us) <= self._wanted_width(speedup) / 2

    def _wanted_width(self, speedup: float) -> float:
        """Half of the interval that is narrow enough, as a share of the speedup."""
        less = min(self.precision * _SLOW_FROM / speedup, _SLOW_PRECISION) if speedup > 0 else 0.0
        return max(self.precision, less)

    def _reward_known(self, speedup: float, width: float, launches: int) -> bool:
        """Whether both ends of the speedup's interval earn the same, as far as the caller cares."""
        low, high = max(0.0, speedup * (1 - width)), speedup * (1 + width)
        if self._earned(self.target_speedup) == 0.0:
            return False  # a reward that no speedup changes: then the speedup itself is what is asked for
        known = self.reward_precision is not None and self._earned(high, low) / 2 <= self.reward_precision
        return known and (launches >= MIN_LAUNCHES or self._earned(high) <= _LITTLE)

    def _earned(self, speedup: float, beside: float = 0.0) -> float:
        """What a right submission gets for this speedup and not for the other."""
        one, other = (reward_if_right(self.reward, each, self.target_speedup) for each in (speedup, beside))
        return 0.0 if one.value is None or other.value is None else one.value - other.value


def ranks(count: int) -> tuple[int, int]:
    """Positions, from 0, of the order statistics that hold the median with 95 % (n/2 -+ 0.98 sqrt(n))."""
    reach = _Z * math.sqrt(count) / 2
    return max(math.floor(count / 2 - reach) - 1, 0), min(math.ceil(count / 2 + reach), count - 1)


def _half_width(samples: Sequence[float]) -> float:
    """Half the interval of the median, as a share of the median."""
    ordered = np.sort(samples)
    low, high = ranks(len(ordered))
    median = float(np.median(ordered))
    return float(ordered[high] - ordered[low]) / 2 / median if median > 0 else math.inf
