"""A hook of mkdocs: what the site shows beside `docs/`, and links to it.

In the repository README.md, DECISIONS.md and others lie above `docs/`, pictures and results in `benchmarks/results/`.
The site has them as pages and files of its own, and links that lead there lead there on the site too.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "DECISIONS.md": "decisions.md",
}
FILES = {"LICENSE": "LICENSE.txt", "common/schema/contract.json": "contract.json"}
RESULTS = "benchmarks/results/"
# A link of Markdown or of an HTML element, to something in the repository.
LINK = re.compile(r"(\]\(|\bsrc=\"|\bhref=\")(?!\w+:|#)([^)\"#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside of `docs/`."""
    for source, place in {**PAGES, **FILES}.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_bytes()))
    for path in sorted((ROOT / RESULTS).iterdir()):
        if path.suffix in (".svg", ".png"):
            files.append(File.generated(config, f"results/{path.name}", content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where the site has what they mean. What the site does not have stays, and mkdocs complains."""
    folder = ROOT if page.file.src_uri in PAGES.values() else ROOT / "docs"
    return LINK.sub(lambda found: found[1] + place_of(found[2], folder), markdown)


def place_of(link: str, folder: Path) -> str:
    """The place on the site of what a page in `folder` calls `link`."""
    target = (folder / link).resolve()
    if not target.is_relative_to(ROOT):
        return link
    path = target.relative_to(ROOT).as_posix()
    if path in PAGES:
        return PAGES[path]
    if path in FILES:
        return FILES[path]
    if path.startswith(RESULTS):
        return f"results/{target.name}"
    return path.removeprefix("docs/")
