"""Solutions that other people published, with the problems that they solve: where they are, and how to lay them out.

    python benchmarks/grading/public_solutions.py --folder /somewhere --mirrors MIRRORS [--only TEXT …]
    python benchmarks/grading/public_solutions.py --folder /somewhere --files FILES

`public_solutions.json` beside this file holds addresses alone (repository, commit, path). `--mirrors`: a folder with
a git repository of each, as `MIRRORS/owner+name` or `MIRRORS/owner/name` (bare or not, or with the git directory
`repo` inside). `--files`: a folder with the files as they lie in their repositories, `FILES/owner/name/path`. Each
pair becomes a folder: `solution.cu` or `solution.py`, `problem.py`, and `pair.json` with its entry of the list.
"""

import argparse
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Final

LIST: Final = Path(__file__).with_suffix(".json")

Files = Callable[[str, str, str], bytes]
"""The contents of a file, by repository, commit and path. Raises OSError where it is not to be had."""


@dataclass(frozen=True)
class Address:
    """A file of a public repository."""

    repository: str
    commit: str
    path: str


@dataclass(frozen=True)
class Pair:
    """A solution and its problem."""

    name: str
    form: str
    """`solve`, `torch-extension`, `kernelbench` (CUDA), `kernelbench-triton`, `triton`."""
    solution: Address
    problem: Address
    claimed: str
    """What its publisher's own tests say, on a GPU: `right`, `wrong`, or empty where they are not published."""
    reviewed: str
    """What reading it gave where a verdict was doubtful: begins with `right` or `wrong`, and says why; or empty."""

    @property
    def solution_name(self) -> str:
        suffix = PurePosixPath(self.solution.path).suffix
        return "solution.py" if suffix == ".py" else "solution.cu"


def pairs(only: Sequence[str] = ()) -> list[Pair]:
    """All of the list, or those whose name contains one of these texts."""
    listed = json.loads(LIST.read_text())
    commits = listed["commits"]

    def address(entry: Sequence[str]) -> Address:
        repository, path = entry
        return Address(repository, commits[repository], path)

    found = [
        Pair(
            one["name"],
            one["form"],
            address(one["solution"]),
            address(one["problem"]),
            one.get("claimed", ""),
            one.get("reviewed", ""),
        )
        for one in listed["pairs"]
    ]
    return [one for one in found if not only or any(text in one.name for text in only)]


def lay_out(pair: Pair, folder: Path, files: Files) -> Path:
    """Write one pair's folder. Raises OSError where a file is not to be had."""
    place = folder / pair.name
    contents = {
        pair.solution_name: files(pair.solution.repository, pair.solution.commit, pair.solution.path),
        "problem.py": files(pair.problem.repository, pair.problem.commit, pair.problem.path),
        "pair.json": json.dumps(asdict(pair), indent=2).encode(),
    }
    place.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        (place / name).write_bytes(data)
    return place


def from_mirrors(mirrors: Path) -> Files:
    """Files of git repositories."""

    def read(repository: str, commit: str, path: str) -> bytes:
        plain = [mirrors / repository.replace("/", "+"), mirrors / repository]
        places = [one for place in plain for one in (place / "repo", place) if one.is_dir()]
        for place in places:
            shown = subprocess.run(["git", "-C", str(place), "show", f"{commit}:{path}"], capture_output=True)
            if shown.returncode == 0:
                return shown.stdout
        raise FileNotFoundError(f"{repository} has no {path} at {commit[:12]} below {mirrors}")

    return read


def from_files(files: Path) -> Files:
    """Files as they lie in their repositories; the commit is not checked."""
    return lambda repository, _, path: (files / repository / path).read_bytes()


def main() -> None:
    """Lay out what can be had; exit 1 if anything is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=())
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--mirrors", type=Path)
    where.add_argument("--files", type=Path)
    asked = parser.parse_args()
    files = from_mirrors(asked.mirrors) if asked.mirrors else from_files(asked.files)
    missing = []
    chosen = pairs(asked.only)
    for pair in chosen:
        try:
            lay_out(pair, asked.folder, files)
        except OSError as error:
            missing.append(f"{pair.name}: {error}")
    print("\n".join([*missing, f"{len(chosen) - len(missing)} of {len(chosen)} pairs laid out in {asked.folder}"]))
    raise SystemExit(bool(missing))


if __name__ == "__main__":
    main()
