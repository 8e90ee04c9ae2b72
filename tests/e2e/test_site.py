"""`docs/` as a site: built strictly, so that a link or an anchor that leads nowhere fails; no other host is asked."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(configuration, site):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", configuration, "-d", site]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_there_and_can_be_found(site):
    sources = {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    assert sources | {"index.html", "decisions.html", "changelog.html"} <= {path.name for path in site.glob("*.html")}
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert sources | {"index.html"} <= places


def test_it_loads_nothing_from_another_host(site):
    loads = re.compile(r"<(?:script|img|iframe)\b[^>]*\bsrc=\"(?:https?:)?//|<link\b[^>]*\bhref=\"(?:https?:)?//")
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text(encoding="utf-8")), style.name


def test_pictures_of_a_page_are_on_the_site(site):
    pictures = 0
    for page in site.glob("*.html"):
        for source in re.findall(r"<img\b[^>]*\bsrc=\"(?!data:)([^\"]+)\"", page.read_text(encoding="utf-8")):
            assert (site / source).is_file(), f"{page.name}: {source}"
            pictures += 1
    assert pictures >= 5


@pytest.mark.parametrize(
    ("link", "said"),
    [("[nowhere](nowhere.md)", "nowhere.md"), ("[none](api.md#no-such-heading)", "no-such-heading")],
)
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path, link, said):
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "DECISIONS.md", "LICENSE", "mkdocs.yml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("docs", "scripts", "common/schema", "benchmarks/results"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    with (tmp_path / "docs" / "verification.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{link}\n")
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 1
    assert said in built.stderr
