"""Writes the measured figures in README.md and `docs/`, as the files in `benchmarks/results/` have them.

A figure stands between two comments, which no page shows, and names its file and the member of `figures`:

    after <!-- figure: grade_latency.warm_p50_s .2f -->0.22<!-- /figure --> s

After the name comes a format of Python's; `.0%` writes `52 %`. `x1000` or `x1e-6` multiplies before. `min` or `max`
in front takes the least or the greatest of all members that a pattern with `*` matches:

    from <!-- figure: min it_learns.passed_before_seed_* .0% -->35 %<!-- /figure -->

`python scripts/figures.py` writes all pages; a test says whether that would change one.
"""

import fnmatch
import json
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FIGURE = re.compile(r"<!-- figure: ([^>]*?) -->(.*?)<!-- /figure -->", re.DOTALL)
NAMED = re.compile(r"(?:(min|max) )?(\w+)\.([\w*]+) (\S+?)(?: x([-\de.]+))?")


def pages() -> list[Path]:
    """README.md and the pages of `docs/`."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def written(page: str) -> str:
    """The page with every figure as the results have it. Raises ValueError for one that they do not have."""
    opened, whole = page.count("<!-- figure:"), len(FIGURE.findall(page))
    if opened != whole:
        raise ValueError(f"{opened - whole} figures have no end: <!-- /figure -->")
    if re.search(r"^ {0,3}<!-- figure:", page, re.MULTILINE):
        raise ValueError("a figure begins a line, where a comment of HTML ends the paragraph; put a word before it")
    return FIGURE.sub(lambda found: f"<!-- figure: {found[1]} -->{text_of(found[1])}<!-- /figure -->", page)


def text_of(name: str) -> str:
    """What stands for one figure: `grade_latency.warm_p50_s .2f` is `0.22`."""
    match = NAMED.fullmatch(name)
    if match is None:
        raise ValueError(f"this is no name of a figure: {name}")
    choose, file, pattern, spec, factor = match.groups()
    values = [value for key, value in _figures(file).items() if fnmatch.fnmatchcase(key, pattern)]
    if not values or (len(values) > 1 and choose is None):
        raise ValueError(f"{len(values)} figures of {file}.json match {pattern}")
    value = {"min": min, "max": max, None: max}[choose](values) * float(factor or 1)
    text = format(round(value) if spec.endswith("d") else value, spec)
    return text.replace("%", " %")


@cache
def _figures(file: str) -> dict[str, float]:
    path = RESULTS / f"{file}.json"
    if not path.is_file():
        raise ValueError(f"there is no {path.name} among the results")
    figures: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return figures


def main() -> None:
    """Write every page whose figures have changed."""
    for path in pages():
        before = path.read_text(encoding="utf-8")
        if (after := written(before)) != before:
            path.write_text(after, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
