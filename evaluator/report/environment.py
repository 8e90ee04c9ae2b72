"""Where every page and picture gets its templates from: all text is escaped, its unseen characters written out."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from common.contract.reference import is_foreign_problem
from evaluator.report.terminal import printable, which_are_wrong

_OWN: Final = "evaluator.report"


@cache
def template_environment(package: str = _OWN) -> Environment:
    """The templates of `package` and those of reports."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in dict.fromkeys((package, _OWN))]),
        # Style sheets and scripts are our own text: escaped, they would no longer be what they are.
        autoescape=lambda name: name is None or not name.endswith((".css", ".js")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    made.filters["prose"] = _prose
    made.filters["sentence"] = lambda text: text[:1].upper() + text[1:] + "." * (not text.endswith((".", "?", "!")))
    made.filters["sizes"] = _sizes
    made.filters["tenth"] = _tenth
    made.filters["which_are_wrong"] = which_are_wrong
    made.tests["foreign_problem"] = is_foreign_problem
    return made


def _sizes(sizes: Mapping[str, int]) -> str:
    """In words for a problem of fixed shapes, which has no sizes."""
    return ", ".join(f"{name} = {size:,}" for name, size in sizes.items()) or "its own shapes"


def _prose(text: str) -> Markup:
    """Text in which `what stands between backticks` is code."""
    pieces = printable(text).split("`")
    if len(pieces) % 2 == 0:
        return escape(printable(text))
    shown = (Markup("<code>{}</code>").format(piece) if i % 2 else escape(piece) for i, piece in enumerate(pieces))
    return Markup("").join(shown)


def _tenth(number: float) -> Markup:
    """A coordinate of a picture to a tenth of a unit: nobody sees more, and pages stay small."""
    return Markup(f"{number:.1f}".removesuffix(".0"))
