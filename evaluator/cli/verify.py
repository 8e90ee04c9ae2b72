"""The command `assay verify`: is this verdict what a grader that I trust has signed, and does it fit itself?"""

import json
import re
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from pydantic import ValidationError

from common.launch_plan import LaunchPlan
from evaluator.cli.chosen_problem import ReferenceText, reference_stated
from evaluator.cli.console import keep_freed_memory
from evaluator.errors import UsageError
from evaluator.report.terminal import printable
from evaluator.settings import MachineSettings
from evaluator.validation_messages import in_plain_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evaluator.problems.problem import Problem
    from evaluator.receipts.checks import Check, ParsedReceipt

EXIT_VERIFIED: Final = 0
EXIT_NOT: Final = 1
_EVALUATION: Final = re.compile(r"(https?://.+)/evaluations/(ev_[A-Za-z0-9_-]{22})(?:/receipt)?/?")
_KEY: Final = re.compile(r"\s*([0-9a-f]{64})\s*")
_MARKS: Final = {"ok": "ok  ", "failed": "FAIL", "not checked": "-   "}


@click.command()
@click.argument("shown", metavar="RECEIPT")
@click.option("--source", "source_file", type=click.Path(path_type=Path), help="The source that it should be about.")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="Its launch plan, where that was a file.")
@click.option(
    "--key", "keys", multiple=True, metavar="PUBLIC", help="The public key to trust, or a file of it; repeatable."
)
@click.option(
    "--reference", metavar="FILE", help="The file that states its problem, where that is one of others; or FORM:PATH."
)
@click.option("--torch", "expression", metavar="TEXT", help="The expression that states it.")
@click.option("--shape", "shapes", multiple=True, metavar="NAME=EXTENTS", help="Of a tensor of --torch.")
@click.option("--rerun", is_flag=True, help="Grade again with the same seed, and compare.")
@click.option("--json", "as_json", is_flag=True, help="Print what was checked as JSON.")
@click.option("--server-key", envvar="ASSAY_KEY", show_envvar=True, help="For a RECEIPT that is a service's address.")
def verify(
    shown: str,
    source_file: Path | None,
    plan_file: Path | None,
    keys: tuple[str, ...],
    reference: str | None,
    expression: str | None,
    shapes: tuple[str, ...],
    rerun: bool,
    as_json: bool,
    server_key: str | None,
) -> None:
    """Check RECEIPT: a verdict (`assay grade --receipt`, `--json`), an evaluation of a service, its address, or `-`.

    Exit 0 verified, 1 not, 2 usage. Without --key the key of this installation is the one to trust.
    """
    # Here, since every other command would wait for what it imports.
    from evaluator.receipts.checks import MAX_BYTES, Expectations, examine_verdict, verified

    settings = MachineSettings.from_environment()
    text = _fetched(shown, server_key) or _read(Path(shown), MAX_BYTES + 1)
    source = _read(source_file, 16 << 20) if source_file else None
    plan = _plan(plan_file) if plan_file else None
    beside = Expectations(source, plan, _trusted(keys, settings))
    found, checks = examine_verdict(text, beside)
    stated = reference_stated(reference, expression, shapes)
    with ExitStack() as while_used:
        if stated is not None and found is not None:
            problem = while_used.enter_context(_problem_of(stated, found, settings))
            found, checks = examine_verdict(text, replace(beside, problem=problem))
        if rerun and found is not None:
            checks += _rerun(found, source, plan, settings, quiet=as_json)
    good = verified(checks)
    click.echo(_json(found, checks, good) if as_json else _words(found, checks, good, named=bool(keys)))
    sys.exit(EXIT_VERIFIED if good else EXIT_NOT)


def _words(shown: "ParsedReceipt | None", checks: "tuple[Check, ...]", good: bool, named: bool) -> str:
    """`named`: whether keys to trust were given, else that of this installation is the one."""
    width = max(len(check.name) for check in checks)
    lines = [f"{_MARKS[check.outcome]}  {check.name:{width}}  {check.detail}" for check in checks]
    failed = [check.name for check in checks if check.outcome == "failed"]
    if good and shown is not None:
        signature = shown.receipt.signature
        lines.append(f"Verified: {shown.verdict.status}, signed by {signature.key_id if signature else 'nobody'}.")
    elif failed == ["key"] and not named:
        lines.append(
            "Not verified: this was signed elsewhere, and no key but that of this installation is trusted without "
            "--key; all else is in order. Name the signer's public key with --key: `assay keys signing` prints "
            "it on the signer's machine, and GET /version of a service has it."
        )
    elif failed == ["key"]:
        lines.append("Not verified: none of the signers that you named has signed this; everything else is in order.")
    else:
        lines.append(f"Not verified: {', '.join(failed)}.")
    return "\n".join(printable(line) for line in lines)


def _json(shown: "ParsedReceipt | None", checks: "tuple[Check, ...]", good: bool) -> str:
    signature = shown.receipt.signature if shown else None
    told = {
        "verified": good,
        "problem": shown.verdict.problem if shown else None,
        "status": shown.verdict.status if shown else None,
        "source_sha256": shown.receipt.source_sha256 if shown else None,
        "key_id": signature.key_id if signature else None,
        "checks": [{"name": one.name, "outcome": one.outcome, "detail": one.detail} for one in checks],
    }
    return json.dumps(told, indent=2)


def _trusted(keys: tuple[str, ...], settings: MachineSettings) -> dict[str, str]:
    """Public keys and whose they are. Raises UsageError."""
    if not keys:
        return _own(settings)
    found = {}
    for key in keys:
        matched = _KEY.fullmatch(key)
        if matched is None:
            content = _read(Path(key), 1 << 10, "Give 64 hexadecimal digits, or the name of a file that has them.")
            matched = _KEY.fullmatch(content.decode(errors="replace"))
        if matched is None:
            raise UsageError(
                f"{key[:100]} holds no public key.", "A public key is 64 hexadecimal digits: `assay keys signing`."
            )
        found[matched[1]] = "one that you trust (--key)"
    return found


def _own(settings: MachineSettings) -> dict[str, str]:
    """The key of this installation, if it has one yet; to look at a receipt makes none."""
    from common.signature import Signer

    try:
        secret = settings.signing_key or settings.signing_key_file.read_text(encoding="ascii").strip()
        return {Signer(secret).public_key: "that of this installation"}
    except (OSError, ValueError):
        return {}


def _fetched(shown: str, server_key: str | None) -> bytes | None:
    """The evaluation at an address; None for what is no address. Raises UsageError, InfrastructureError."""
    if not shown.startswith(("http://", "https://")):
        return None
    matched = _EVALUATION.fullmatch(shown)
    if matched is None:
        raise UsageError(f"{shown[:200]} is not the address of an evaluation.", "It ends in /evaluations/ev_…")
    from evaluator.cli import remote

    return remote.evaluation(matched[1], server_key, matched[2]).model_dump_json().encode()


def _rerun(
    shown: "ParsedReceipt", source: bytes | None, plan: LaunchPlan | None, settings: MachineSettings, quiet: bool
) -> "tuple[Check, ...]":
    # What it imports is not needed to look at a receipt, nor there on a machine without a compiler.
    from evaluator.pipeline.toolbox import Toolbox
    from evaluator.receipts.replay import replay

    keep_freed_memory()
    if not quiet and sys.stderr.isatty():
        click.echo("grading again", err=True)
    return replay(shown, source, plan, Toolbox(settings))


@contextmanager
def _problem_of(stated: ReferenceText, shown: "ParsedReceipt", settings: MachineSettings) -> "Iterator[Problem]":
    """The problem that a file states, which must be the verdict's. Raises UsageError, InfrastructureError."""
    from evaluator.foreign.loading import foreign_problem
    from evaluator.pipeline.toolbox import Toolbox

    told, given = shown.verdict.problem, stated.problem_id
    # A file may have another name here; its form and the hash of its text are what says which problem it states.
    if (told.partition("_")[0], told.rpartition("_")[2]) != (given.partition("_")[0], given.rpartition("_")[2]):
        raise UsageError(
            f"{stated.name} states {given}, and the verdict is about {told}.",
            "Give the very file that was graded for.",
        )
    toolbox, sizes = Toolbox(settings), shown.receipt.settings.other_sizes
    backend = shown.verdict.backend
    with foreign_problem(
        stated.text, stated.name, toolbox.sandbox, toolbox.cache, sizes, told, backend=backend
    ) as problem:
        yield problem


def _plan(file: Path) -> LaunchPlan:
    try:
        return LaunchPlan.model_validate_json(_read(file, 1 << 20))
    except ValidationError as error:
        raise UsageError(f"The plan {file} is not a launch plan: {in_plain_words(error)}") from error


def _read(file: Path, max_bytes: int, remedy: str | None = None) -> bytes:
    """Raises UsageError."""
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(max_bytes)
        with file.open("rb") as opened:
            return opened.read(max_bytes)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{str(file)[:200]} cannot be read: {why}.", remedy) from error
