"""What a command was given: files, sizes, settings. What cannot be used is a UsageError in plain words."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from pydantic import ValidationError

from common.contract import Settings
from common.launch_plan import LaunchPlan
from evaluator.errors import UsageError
from evaluator.validation_messages import in_plain_words

MAX_BYTES: Final = 16 << 20


def verification_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with `--verification` and `--quick`, which says the same in short."""
    named = click.option(
        "--verification",
        type=click.Choice(["full", "quick"]),
        default="full",
        show_default=True,
        help="quick leaves out the sizes above the published ones.",
    )
    return named(click.option("--quick", is_flag=True, help="The same as --verification quick.")(command))


def read_source(file: Path, remedy: str = "Give the path of one CUDA source file.") -> bytes:
    """The bytes of a file, or of standard input for `-`; at most `MAX_BYTES`."""
    try:
        if str(file) == "-":
            if sys.stdin is None:
                raise UsageError("Standard input is closed.", remedy)
            return sys.stdin.buffer.read(MAX_BYTES)
        if not file.is_file():
            what = (
                "is a folder" if file.is_dir() else "does not exist" if not file.exists() else "is not a plain file"
            )
            raise UsageError(f"{file} {what}.", remedy)
        with file.open("rb") as opened:
            return opened.read(MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error


def output_path(name: str, source_file: Path | None = None, what: str = "report") -> Path:
    """Where the report (or `what`) goes; refused before the work if it could not be written. Raises UsageError."""
    example = {"report": "report.html", "repro": "repro.cu"}.get(what, f"{what}.json")
    if name in ("", "-"):
        raise UsageError(
            f"The {what} needs a file of its own." if name else f"The name of the {what} is empty.",
            f"Name a file, for example --{what} {example}.",
        )
    file = Path(name)
    try:
        if source_file and file.exists() and source_file.exists() and file.samefile(source_file):
            raise UsageError(
                f"The {what} would overwrite {source_file}.", f"Name another file, for example {example}."
            )
        if file.is_dir():
            raise UsageError(f"The {what} {file} cannot be written: it is a folder.", "Name a file in it.")
        if file.exists() and not file.is_file():
            return file  # a device, such as /dev/stdout
        file.parent.mkdir(parents=True, exist_ok=True)
        new = not file.exists()
        with file.open("ab"):
            pass
        if new:
            file.unlink()
    except OSError as error:
        raise UsageError(
            f"The {what} {file} cannot be written: {error.strerror}.", "Name a file that you may write."
        ) from error
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"The {what} {name!r} cannot be written: {error}.") from error
    return file


def write_output(file: Path, text: str) -> None:
    """Write a text file, and its folder where there is none."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The report {file} cannot be written: {error.strerror}.") from error


def named_problem(raw: bytes) -> str | None:
    """The problem that a first comment `// problem: ID` names, in Python `# problem: ID`."""
    match = re.match(rb"(?:\xef\xbb\xbf)?\s*(?:```\w*\s*)?(?://|#) problem:[ \t]*(\w{1,100})\s*$", raw[:4096], re.M)
    return match[1].decode() if match else None


def problem_of(given: str | None, raw: bytes, file: Path) -> str:
    """The problem to grade for: what `--problem` says, else the file's first line. Raises UsageError."""
    named = named_problem(raw)
    if given is not None and named is not None and given != named:
        raise UsageError(
            f"--problem says {given}, and the first line of {file} says {named}.",
            "Leave --problem out, or change the line `// problem: ID`.",
        )
    chosen = given or named
    if chosen is None and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(f"{file} is UTF-16 text, as some editors on Windows write it.", "Save it as UTF-8.")
    if chosen is None and (not raw.strip() or b"\0" in raw):
        raise UsageError(f"{file} is {'no text' if raw.strip() else 'empty'}.", "Grade a file of CUDA C++ source.")
    if chosen is None:
        line = "# problem: ID" if file.suffix == ".py" else "// problem: ID"
        raise UsageError(
            "Which problem?",
            f"Add --problem ID, or a first line `{line}` to the file; for a problem that is stated in a file of "
            "others, as KernelBench's, --reference FILE.",
        )
    return chosen


def sizes_of(given: tuple[str, ...]) -> dict[str, int] | None:
    """`n=1000` and the like, by name; None where nothing was given."""
    sizes: dict[str, int] = {}
    for text in given:
        match = re.fullmatch(r"([A-Za-z_]\w*)=([0-9]{1,12})", text)
        if match is None:
            raise UsageError(
                f"--size {text} cannot be read.", "Write it as NAME=N, once for each size: --size m=64 --size n=3."
            )
        if match[1] in sizes:
            raise UsageError(f"--size gives {match[1]} twice.", "One more size can be asked for in each run.")
        sizes[match[1]] = int(match[2])
    return sizes or None


def submission_settings(given: dict[str, object]) -> Settings:
    """The settings with these members."""
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        said = in_plain_words(error)
        for name, option in (
            ("run_timeout_s", "--timeout"),
            ("timing_precision", "--timing-precision"),
            ("compile_timeout_s", "--compile-timeout"),
            ("shrink_s", "--shrink-s"),
            ("schedule", "--schedule"),
        ):
            said = said.replace(name, option)
        raise UsageError(
            f"The settings cannot be used: {said}", "`assay grade --help` says what they can be."
        ) from error


def plan_in(file: Path) -> LaunchPlan:
    """The launch plan in a JSON file."""
    try:
        return LaunchPlan.model_validate_json(read_source(file, "Give the path of a launch plan in JSON."))
    except ValidationError as error:
        raise UsageError(
            f"The launch plan {file} cannot be used: {in_plain_words(error)}",
            "docs/launch-plans.md shows what a launch plan holds.",
        ) from error
