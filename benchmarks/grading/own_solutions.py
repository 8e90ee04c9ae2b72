"""The files of host code in tests/kernels, and those made wrong, laid out as public solutions are.

    python benchmarks/grading/own_solutions.py --folder FOLDER
    python benchmarks/gpu/public_and_built.py --folder FOLDER --rows ROWS.jsonl --name own_and_built

Each becomes a folder: `solution.cu` or `solution.py`, `pair.json`, and `problem.py` for a problem that is not ours.
`benchmarks/gpu/lifted_and_built.py` does the same for `solve` files, and times them.
"""

import argparse
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.grading.share_lifted import files_of, problem_named

_TESTS: Final = {
    "torch-extension": "test_extension_files",
    "kernelbench": "test_solutions",
    "triton": "test_triton_files",
}
"""Of each list."""


def _made_wrong(folder: Path, name: str) -> dict[str, tuple[str, str]]:
    """What the list's own tests change in files, by their names: what is there, and what is put in its place."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wrong: dict[str, tuple[str, str]] = module.WRONG
    return wrong


def solutions() -> Iterator[tuple[dict[str, str], str, bytes | None]]:
    """What `pair.json` says, the solution, and the file that states its problem where one does."""
    for dialect, tests in _TESTS.items():
        files = files_of(dialect)
        changes = _made_wrong(files[0].parent, tests)
        for path in files:
            text, name = path.read_text(), f"{path.parent.name}_{path.stem}"
            named = problem_named(text)
            stated = (path.parent / named).read_bytes() if named.endswith(".py") else None
            form = "kernelbench-triton" if dialect == "kernelbench" and "@triton.jit" in text else dialect
            told = {"form": form, "claimed": "", "problem": "" if stated else named}
            yield {"name": name, **told, "reviewed": "right"}, text, stated
            if path.stem in changes:
                wrong = text.replace(*changes[path.stem])
                yield {"name": f"{name}_wrong", **told, "reviewed": "wrong"}, wrong, stated


def main() -> None:
    """Lay all out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    folder = parser.parse_args().folder
    for pair, text, stated in solutions():
        place = folder / pair["name"]
        place.mkdir(parents=True, exist_ok=True)
        (place / ("solution.cu" if pair["form"] == "torch-extension" else "solution.py")).write_text(text)
        (place / "pair.json").write_text(json.dumps(pair, indent=1) + "\n")
        if stated is not None:
            (place / "problem.py").write_bytes(stated)


if __name__ == "__main__":
    main()
