"""Sheets that matplotlib draws on, and that become SVG for the inside of a page.

A page brings its own colours (light and dark), its own font, and a policy that forbids inline styles and addresses.
So what matplotlib writes is read again and told anew: colours become classes (`f-accent` fills, `s-accent` strokes),
text stays text, and identifiers, clip paths, style sheets and metadata go. What is left is shapes and words.
"""

import logging
import re
import warnings
from collections.abc import Iterator
from functools import cache
from io import StringIO
from threading import RLock
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from markupsafe import Markup

from evaluator.report.terminal import printable

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

WIDTH: Final = 304
"""Of every picture, in its own units: what a page leaves of a phone's screen of 360, so text is as large as drawn."""

# Stand-ins, none of which matplotlib would choose by itself: the page's style sheet knows the real colours by name.
_NAMES: Final = (
    *("ink", "soft", "line", "card", "track", "accent", "other", "good", "bad", "caution", "minus", "mark"),
    *("h0", "h1", "h2", "h3", "h4", "h5"),
)
COLOURS: Final = {name: f"#0102{number:02x}" for number, name in enumerate(_NAMES, 1)}
_OF_COLOUR: Final = {colour: name for name, colour in COLOURS.items()}
_SIZES: Final = {12.0: "", 10.5: "tiny", 14.0: "large"}
_KEPT: Final = {"stroke-width": "stroke-width", "stroke-dasharray": "stroke-dasharray", "text-anchor": "text-anchor"}
_SHADES: Final = {"opacity": "opacity", "fill-opacity": "fill-opacity", "stroke-opacity": "stroke-opacity"}

drawing: Final = RLock()
"""matplotlib's fonts and parameters are one for all threads: a picture is made while this is held."""


class Sheet:
    """A picture in the making, `WIDTH` wide. Everything on it has a colour of `COLOURS`; sizes of text are 10.5, 12
    and 14. Belongs to one thread, which holds `drawing`.
    """

    def __init__(self, height: float) -> None:
        self.height = height
        self.figure = _figure(height)
        self._titles: list[str] = []

    def axes(self, left: float, top: float, width: float, height: float, *, bare: bool = False) -> "Axes":
        """Axes in a box, measured from the sheet's upper left corner. `bare`: a canvas without scales, y downwards,
        whose units are those of the sheet.
        """
        box = (left / WIDTH, 1 - (top + height) / self.height, width / WIDTH, height / self.height)
        made = self.figure.add_axes(box)
        made.patch.set_visible(False)
        if bare:
            made.set_axis_off()
            made.set_xlim(0, width)
            made.set_ylim(height, 0)
            return made
        for side, spine in made.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(COLOURS["soft"])
            spine.set_linewidth(1)
        made.tick_params(length=0, pad=4, labelsize=10.5, labelcolor=COLOURS["soft"], which="both")
        return made

    def says(self, artist: "Artist", words: str) -> None:
        """Words that come up where a pointer rests on `artist`."""
        artist.set_gid(f"said-{len(self._titles)}")
        self._titles.append(words)

    def svg(self, title: str, description: str) -> Markup:
        """The finished picture. `title` and `description` stand for it where it cannot be seen."""
        for artist in self.figure.findobj():
            artist.set_clip_on(False)
            if isinstance(artist, _text()):
                artist.set_text(" ".join(printable(artist.get_text()).split()))
        written = StringIO()
        self.figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
        root = ElementTree.fromstring(written.getvalue())
        drawn = ElementTree.Element(
            "svg",
            {
                "class": "picture",
                "viewBox": f"0 0 {WIDTH} {self.height:g}",
                "role": "img",
                "aria-label": printable(f"{title}. {description}"),
            },
        )
        for child in root:
            drawn.extend(self._told(child))
        return Markup(ElementTree.tostring(drawn, encoding="unicode"))

    def _told(self, element: ElementTree.Element) -> Iterator[ElementTree.Element]:
        """What is left of an element: itself in the page's words, or its children where it only held them."""
        tag = element.tag.rpartition("}")[2]
        if tag in ("metadata", "defs"):
            return
        children = [told for child in element for told in self._told(child)]
        said = re.fullmatch(r"said-(\d+)", element.get("id", ""))
        if tag == "g" and not said:
            yield from children
            return
        made = ElementTree.Element(tag, _attributes(element))
        if said:
            ElementTree.SubElement(made, "title").text = printable(self._titles[int(said[1])])
        if tag == "text":
            made.text = printable("".join(element.itertext()).strip())
        made.extend(children)
        yield made


def _attributes(element: ElementTree.Element) -> dict[str, str]:
    style = dict(re.findall(r"([\w-]+):\s*([^;]+)", element.get("style", "")))
    given = {name: element.get(name, "") for name in ("x", "y", "d", "transform", "width", "height")}
    kept = {name: _short(value) for name, value in given.items() if value}
    if _is_upright(kept.get("transform", "")):
        del kept["transform"]
    classes = []
    for name, letter in (("fill", "f"), ("stroke", "s")):
        if name in style:
            classes.append(f"{letter}-{'none' if style[name] == 'none' else _OF_COLOUR[style[name]]}")
    kept |= {name: style[name] for name in _KEPT if name in style}
    kept |= {name: style[name] for name in _SHADES if name in style and float(style[name]) < 1}
    font = " ".join(style.get(name, "") for name in ("font", "font-size", "font-weight"))
    if size := re.search(r"([\d.]+)px", font):
        classes.append(_SIZES[float(size[1])])
        classes.append("bold" if re.search(r"\b(bold|600|700)\b", font) else "")
    if shown := " ".join(filter(None, classes)):
        kept["class"] = shown
    return kept


def _is_upright(transform: str) -> bool:
    turned = re.fullmatch(r"rotate\((-?[\d.]+)[ \d.-]*\)", transform)
    return bool(turned) and float(turned[1]) == 0 if turned else False


def _short(value: str) -> str:
    """Numbers to a tenth of a point: nobody sees more, and pages stay small."""
    rounded = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), value)
    return " ".join(rounded.split())


@cache
def _library() -> type["Figure"]:
    """matplotlib, imported when the first picture is wanted: it takes longer than a verdict."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # The page's own font has what matplotlib's lacks.
    warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
    import matplotlib
    from matplotlib.figure import Figure

    # Text stays text, and a dollar sign in a stranger's name is no formula.
    matplotlib.rcParams.update({"svg.fonttype": "none", "text.parse_math": False, "font.size": 12})
    matplotlib.rcParams.update({"text.color": COLOURS["ink"], "axes.labelcolor": COLOURS["soft"]})
    return Figure


@cache
def _text() -> type["Text"]:
    from matplotlib.text import Text

    return Text


def _figure(height: float) -> "Figure":
    made = _library()(figsize=(WIDTH / 72, height / 72), dpi=72)
    made.patch.set_visible(False)
    return made
