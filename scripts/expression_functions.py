"""Writes into docs/foreign_problems.md which functions an expression (`--torch`) may call, as the code has them.

`python -m scripts.expression_functions` writes it; a test says whether that would change it.
"""

import re
import textwrap
from pathlib import Path

from evaluator.foreign.torch_text import FUNCTIONS

PAGE = Path(__file__).parents[1] / "docs" / "foreign_problems.md"
_PLACE = re.compile(r"(<!-- functions of an expression -->\n).*?(<!-- /functions -->)", re.DOTALL)
_WIDTH = 118


def page() -> str:
    """The page, with the functions of each module in a paragraph."""
    paragraphs = []
    for module in ("torch", "F"):
        names = [name.partition(".")[2] for name in FUNCTIONS if name.startswith(f"{module}.")]
        paragraphs.append(textwrap.fill(f"`{module}.`: {', '.join(names)}.", _WIDTH, break_on_hyphens=False))
    listed = "\n\n".join(paragraphs)
    return _PLACE.sub(lambda found: f"{found[1]}\n{listed}\n\n{found[2]}", PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
