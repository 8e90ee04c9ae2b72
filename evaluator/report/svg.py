"""What all pictures of a report share: their width, their colours, their scales, and how their templates are filled.

A page brings its own colours (light and dark), its own font, and a policy that forbids inline styles and addresses.
So a picture is shapes and words, and has its looks from classes of report.css: `f-accent` fills, `s-accent` strokes.
"""

import math
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from evaluator.report.environment import template_environment

WIDTH: Final = 304
"""Of a picture, in its own units: what a page leaves of a phone's screen of 360, so text is as large as drawn."""

COLOURS: Final = (
    *("ink", "soft", "line", "card", "track", "accent", "other", "good", "bad", "caution", "minus", "mark"),
    *("h0", "h1", "h2", "h3", "h4", "h5"),
)
"""Names that the style sheet gives a colour for light pages and one for dark pages."""


@dataclass(frozen=True)
class Scale:
    """Where values lie on a picture: `low` at `start` and `high` at `end`, which are in the picture's units."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def draw(chart: str, words: str, **values: object) -> Markup:
    """The picture that the template `charts/CHART.svg.j2` makes of `values`; `words` are for who cannot see it."""
    return Markup(
        template_environment().get_template(f"charts/{chart}.svg.j2").render(values, words=words, width=WIDTH)
    )
