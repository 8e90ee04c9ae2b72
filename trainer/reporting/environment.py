"""Where the trainer's pages get their templates from: no script, no network, no font, and text that does nothing.

What a model wrote is hostile: jinja2 escapes it, unseen characters are written out, and a page's content security
policy allows its one style sheet (by hash) and nothing else.
"""

import base64
import hashlib
import unicodedata
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_OWN: Final = "trainer.reporting"
MAX_CHARACTERS: Final = 60_000
"""Of one text on a page; longer ones are cut, and the page says so."""


def page_environment(package: str, *sheets: str) -> Environment:
    """The templates of `package` and the frame of all pages, whose style sheet is these files one after another."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in dict.fromkeys((package, _OWN))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    loader = made.loader
    assert loader is not None
    style = "".join(loader.get_source(made, sheet)[0] for sheet in sheets)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    made.filters.update(number=_number, visible=visible)
    made.globals.update(style=Markup(style), style_hash=digest)
    return made


def visible(text: str) -> str:
    """`text` with every character that shows nothing or changes the direction of others written out, and cut where it
    is too long for a page.
    """
    cut = len(text) > MAX_CHARACTERS
    kept = text[:MAX_CHARACTERS]
    shown = "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        else f"\\u{{{ord(character):x}}}"
        for character in kept
    )
    return f"{shown}\n… ({len(text) - MAX_CHARACTERS} more characters)" if cut else shown


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
