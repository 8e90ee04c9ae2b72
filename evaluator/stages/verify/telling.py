"""Whether the answers of an evaluation's trials could tell a wrong kernel, looked at where they are computed."""

from collections.abc import Iterator, Mapping

from evaluator.problems.problem import Expected, Tolerance
from evaluator.problems.telling import HARDLY, telling_share


class TellingTrials:
    """Looks at the answers of one evaluation until each output has had one that tells: mostly the first does."""

    def __init__(self) -> None:
        self._best: dict[str, float] = {}
        """The most telling share so far of each output that hardly tells."""
        self._telling: set[str] = set()

    def look(self, expected: Mapping[str, Expected], tolerance: Tolerance) -> None:
        """Take account of one trial's answer."""
        for name in expected.keys() - self._telling:
            share = telling_share(expected[name], tolerance)
            if share is None:
                continue
            self._best[name] = max(share, self._best.get(name, 0.0))
            if share >= HARDLY:
                self._telling.add(name)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One for each output of which no answer told much."""
        return tuple(self._said())

    def _said(self) -> Iterator[str]:
        for name, share in sorted(self._best.items()):
            if name not in self._telling:
                yield (
                    f"no trial tells much about '{name}': in each at least {100 * (1 - share):.4g} % of its elements "
                    "should be one and the same number, so a wrong kernel can be right there"
                )
