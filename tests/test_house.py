"""What the documents say is what the code says, and nothing of one machine is in the repository."""

import ast
import re
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest
from test_architecture import CONTRACTS

from common.contract import Status
from evaluator import __version__
from evaluator.problems.catalogue import problems
from evaluator.settings import MachineSettings, ServiceSettings, variables
from scripts import expression_functions, figures, rewards_page

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PAGES = [*figures.pages(), ROOT / "CONTRIBUTING.md", ROOT / "DECISIONS.md", ROOT / "CHANGELOG.md"]
# Of what stands in a measured figure's units: what a benchmark was asked for.
SET_BY_THE_BENCHMARK = {"5 s"}
SETTING = r"ASSAY_[A-Z]+(?:_[A-Z]+)*"
TEXT = {".cfg", ".cpp", ".cu", ".css", ".h", ".j2", ".json", ".md", ".py", ".toml", ".txt", ".yaml", ".yml", ""}


def tracked() -> list[Path]:
    """Files that git knows; without git (an exported tree), all that a checkout would hold."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    hidden = {".venv", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "__pycache__"}
    return [path for path in ROOT.rglob("*") if path.is_file() and not hidden & set(path.relative_to(ROOT).parts)]


def dependencies() -> list[str]:
    project = PYPROJECT["project"]
    wanted = [*project["dependencies"], *PYPROJECT["build-system"]["requires"]]
    wanted += [one for extra in project["optional-dependencies"].values() for one in extra]
    return sorted({re.match(r"[A-Za-z0-9._-]+", one)[0].lower() for one in wanted} - {project["name"]})


def table(heading: str, name: str) -> list[list[str]]:
    """The cells of the first table under a heading of a document, without its two lines of heading."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}$.*?^(\|.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{name} has no table under {heading!r}"
    rows = [line for line in found[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows[2:]]


def evaluator_text() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "evaluator").rglob("*.py")))


# Public names that stand in two modules, each with its reason. Everything else has a name of its own.
SHARED_NAMES = {
    "Problem": "what there is to compute; and the body of a refusal, which RFC 9457 and the API's schema call so",
    "Size": "torch.Size, as Triton's and KernelBench's Python see it",
    "doctor": "a command of `assay` and of `assay-train`",
    "downgrade": "Alembic asks for it in each migration",
    "evaluate": "the pipeline's only entry; the route POST /evaluate, as its schema names it; `assay-train evaluate`",
    "examine": "what `doctor` shows, for each of the two commands",
    "grade": "`assay grade`, and the same from Python: `assay.grade`",
    "main": "where a process begins",
    "options": "the command line of an NVIDIA tool, a module for each: ncu, compute-sanitizer",
    "refusal": "what an NVIDIA tool says where it may not look, a module for each",
    "router": "the routes of one module",
    "run": "`assay-train run`, and what it calls",
    "serve": "the loop of a process that answers: `assay serve` and its server, a GPU's referee, a container's first",
    "upgrade": "Alembic asks for it in each migration",
    "verify": "`assay verify`, which verifies verdicts; and the stage that verifies outputs",
}


def public_names() -> dict[str, set[str]]:
    """The modules that define each public function and class of the product."""
    found: dict[str, set[str]] = {}
    for path in tracked():
        part = path.relative_to(ROOT)
        if path.suffix == ".py" and part.parts[0] in ("assay", "common", "evaluator", "trainer"):
            for node in ast.parse(path.read_bytes()).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                    found.setdefault(node.name, set()).add(str(part))
    return found


def test_a_public_name_stands_in_one_module_or_has_a_reason():
    twice = {name: sorted(modules) for name, modules in public_names().items() if len(modules) > 1}
    assert {name: modules for name, modules in twice.items() if name not in SHARED_NAMES} == {}
    assert SHARED_NAMES.keys() - twice.keys() == set(), "a reason for a name that stands in one module only"


def test_modules_of_tests_have_names_of_their_own():
    names = [path.name for path in tracked() if path.name.startswith("test_") and path.is_relative_to(ROOT / "tests")]
    assert sorted({name for name in names if names.count(name) > 1}) == [], "pytest collects only one of each"


def test_the_version_is_the_same_everywhere():
    assert PYPROJECT["project"]["version"] == __version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__


@pytest.mark.parametrize("name", dependencies())
def test_every_dependency_is_explained(name):
    reasons = (ROOT / "DECISIONS.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| [^|]*`{re.escape(name)}`[^|]*\| [^|]{{20,}}", reasons, re.MULTILINE | re.IGNORECASE)


def test_every_explained_dependency_is_still_one():
    reasons = (ROOT / "DECISIONS.md").read_text(encoding="utf-8").split("## Dependencies")[1]
    rows = re.findall(r"^\| (`[^|]*)\|", reasons, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`([^`]+)`", row)) == dependencies()


def test_every_dependency_is_pinned_for_development():
    pins = (ROOT / "constraints-dev.txt").read_text().lower()
    build = {re.match(r"[a-z0-9-]+", one)[0] for one in PYPROJECT["build-system"]["requires"]}
    pinned = {re.sub(r"[_.]", "-", line.split("==")[0]) for line in pins.splitlines() if "==" in line}
    assert set(dependencies()) - build <= pinned


def test_the_page_of_problems_lists_every_problem_as_it_is():
    def tensors(faces):
        return ", ".join(
            f"{tensor.name}[{', '.join(tensor.shape)}]" + (f" {tensor.dtype}" if tensor.dtype != "float32" else "")
            for tensor in faces
        )

    faces = [problem.face for problem in problems().values()]
    expected = [
        [
            str(face.tier),
            f"`{face.id}`",
            face.title,
            tensors(face.inputs),
            tensors(face.outputs),
            ", ".join([*(scalar.name for scalar in face.scalars), *face.sizes]),
        ]
        for face in faces
    ]
    assert table("The problems", "docs/problems.md") == expected


def test_the_page_of_problems_states_the_range_of_every_problem():
    expected = [[f"`{face.id}`", face.serves] for face in (problem.face for problem in problems().values())]
    assert table("Sizes that a kernel must serve", "docs/problems.md") == expected


def test_the_page_of_verdicts_lists_every_status_in_order():
    rows = table("Statuses", "docs/verdicts.md")
    assert [row[0] for row in rows] == [f"`{status}`" for status in Status]
    assert [row[-1] == "yes" for row in rows] == [status.carries_reward for status in Status]


def test_the_readmes_four_groups_hold_every_status_once():
    rows = table("What a verdict means", "README.md")
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[1])]
    assert sorted(named) == sorted(Status)
    unjudged = {name for row in rows if row[2].startswith("none") for name in re.findall(r"`(\w+)`", row[1])}
    assert unjudged == {status for status in Status if not status.carries_reward}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_page_of_settings_lists_every_setting_of_the_machine():
    known = {f"`{name}`" for name in re.findall(SETTING, evaluator_text())}
    assert {row[0] for row in table("Settings of the machine", "docs/settings.md")} == known
    assert known == {f"`{name}`" for name in variables()}


def defaults() -> dict[str, float]:
    """The default of each variable that holds a number."""
    found = {}
    for settings in (MachineSettings, ServiceSettings):
        hints = get_type_hints(settings, include_extras=True)
        for one in fields(settings):
            if isinstance(one.default, int | float) and not isinstance(one.default, bool):
                found[hints[one.name].__metadata__[-1].validation_alias] = one.default
    return found


def test_the_page_of_settings_gives_every_number_as_the_code_has_it():
    listed = {row[0].strip("`"): row[1] for row in table("Settings of the machine", "docs/settings.md")}
    numbers = {name: int(number) for name, number in defaults().items()}
    assert len(numbers) > 15
    del numbers["ASSAY_WORKERS"]  # one for each CPU; the class's own default is for who asks no machine
    for name, number in numbers.items():
        forms = (f"{number}", f"{number >> 20} MiB", f"{number >> 30} GiB", f"{number // 86400} days")
        assert any(re.search(rf"; {form}\b", listed[name]) for form in forms), f"{name}: {number}"


def test_what_the_operators_page_names_exists():
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    compose = "".join((ROOT / name).read_text(encoding="utf-8") for name in (".env.example", "docker-compose.yml"))
    named = set(re.findall(SETTING, page))
    assert named <= {*re.findall(SETTING, evaluator_text()), *re.findall(SETTING, compose)}
    code = "".join(
        (ROOT / "evaluator" / "service" / name).read_text() for name in ("api/metrics.py", "storage/counters.py")
    )
    metrics = set(re.findall(r'"(assay_[a-z_]+)"', code))
    listed = {name for row in table("Observing", "docs/operators.md") for name in re.findall(r"`(\w+)`", row[0])}
    # Counters get their suffix from the library.
    assert {name.removesuffix("_total") for name in listed} == {name.removesuffix("_total") for name in metrics}


def test_the_api_page_lists_every_refusal():
    code = (ROOT / "evaluator" / "service" / "api" / "errors.py").read_text(encoding="utf-8")
    refusals = re.findall(r'^    "([a-z-]+)": \((\d{3}), ', code, re.MULTILINE)
    assert [(row[0].strip("`"), row[1]) for row in table("Errors", "docs/api.md")] == refusals


def test_the_page_of_the_code_draws_the_layers_as_they_are():
    text = (ROOT / "docs" / "code.md").read_text(encoding="utf-8").split("# How the code is laid out")[1]
    drawing = re.search(r"```text\n(.*?)```", text, re.DOTALL)[1]
    drawn = [line.split("   ")[0].split(", ") for line in drawing.splitlines() if line.strip() != "|"]
    layers = [
        [each.strip().removeprefix("evaluator.") for each in layer.split("|")]
        for layer in CONTRACTS[0]["layers"]
        if layer != "evaluator.__main__"
    ]
    assert drawn == layers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z-]+)\b", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page):
    for link, heading in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        target = page.parent / link if link else page
        assert target.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", figures.pages(), ids=lambda page: page.name)
def test_every_figure_of_a_page_is_the_one_of_its_results(page):
    text = page.read_text(encoding="utf-8")
    assert figures.written(text) == text, "run `make docs`"


@pytest.mark.parametrize(("page", "heading"), [("README.md", ""), ("docs/operators.md", "Capacity")])
def test_a_measured_figure_names_its_results(page, heading):
    text = (ROOT / page).read_text(encoding="utf-8")
    if heading:
        text = re.search(rf"^## {heading}$(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)[1]
    bare = figures.FIGURE.sub("", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    assert set(re.findall(r"\d[\d.,]* (?:%|ms|µs|us|s)(?!\w)", bare)) <= SET_BY_THE_BENCHMARK


def test_a_figure_that_no_results_have_is_refused():
    for name in (
        "grade_latency.warm .2f",
        "nothing.warm_p50_s .2f",
        "grade_latency.* .2f",
        "grade_latency.warm_p50_s",
    ):
        with pytest.raises(ValueError, match=r"figure|results"):
            figures.written(f"It took <!-- figure: {name} -->1<!-- /figure --> s.")
    for page in ("It took <!-- figure: a.b d -->1", "<!-- figure: a.b d -->1<!-- /figure -->"):
        with pytest.raises(ValueError, match=r"no end|begins a line"):
            figures.written(page)
    assert figures.text_of("grade_latency.warm_p50_s .0f x1000").isdecimal()
    low, high = (figures.text_of(f"{choose} it_learns.passed_before_seed_* .0%") for choose in ("min", "max"))
    assert float(low.rstrip(" %")) < float(high.rstrip(" %"))


def test_the_page_of_rewards_says_what_the_code_does():
    assert (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8") == rewards_page.page(), "run `make docs`"


def test_the_functions_of_an_expression_are_those_of_the_code():
    page = (ROOT / "docs" / "foreign_problems.md").read_text(encoding="utf-8")
    assert page == expression_functions.page(), "run `make docs`"
    assert "layer_norm, leaky_relu" in " ".join(page.split())


def test_nothing_of_one_machine_is_in_the_repository():
    # Put together here, so that this file does not find itself.
    homes = ["/" + "root/", "/" + "home/(?!someone)[a-z]", r"(?<!\w)/" + "work/", "/" + "Users/"]
    homes += ["pypi" + r"\.org/simple", "extra-" + "index-url", "--index-" + "url", "find-" + "links"]
    pattern = re.compile("|".join(homes))
    found = []
    for path in tracked():
        if path.suffix in TEXT:
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in pattern.finditer(text)]
    assert found == []
