"""The commands of a service's operator: `assay serve`, `assay worker`, `assay keys` and `assay env`."""

import contextlib
import importlib.util
import os
import re
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from evaluator.cli.console import InternalCommandError, printing
from evaluator.errors import UsageError
from evaluator.installation import install_command
from evaluator.settings import MachineSettings, ServiceSettings

if TYPE_CHECKING:
    from evaluator.service.storage.api_keys import ApiKeyRepository
    from evaluator.service.storage.secrets import Key

_LIBRARIES = (
    "alembic",
    "celery",
    "fastapi",
    "fastapi_offline",
    "prometheus_client",
    "redis",
    "sqlalchemy",
    "structlog",
    "uvicorn",
)
DOCKER_SOCKET: Final = Path("/var/run/docker.sock")
"""Where docker-compose.yml takes it from."""
USUAL_DOCKER_GROUP: Final = "999"
"""Docker's group on most hosts where nothing else was there first."""
COMPOSE_SECRETS: Final = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "ASSAY_SECRET", "ASSAY_SIGNING_KEY")
COMPOSE_ENV: Final = Path(__file__).with_name("compose.env.template")
"""The `.env` of docker-compose.yml, without its secrets."""
_SECRET = re.compile("[0-9a-f]{64}")
_DAY_S = 86400.0
_END_OF_TIME_S = 253_402_300_799
"""The end of the year 9999, the last that a date can be written of."""
_COUNT = click.IntRange(1, 2**31 - 1)
"""What an integer column of every database holds."""


def _settings(data_dir: Path | None) -> tuple[ServiceSettings, MachineSettings]:
    """From the variables; the option is another way to set one. Workers that are started inherit it.

    Raises UsageError, also for a data folder that cannot be written.
    """
    if data_dir is not None:
        os.environ["ASSAY_DATA_DIR"] = str(data_dir.absolute())
    settings = ServiceSettings.from_environment()
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=settings.data_dir):
            pass
    except OSError as error:
        raise UsageError(
            f"The data folder {settings.data_dir} cannot be written: {error.strerror}.",
            "Name a folder that you can write with --data-dir, or in ASSAY_DATA_DIR.",
        ) from error
    return settings, MachineSettings.from_environment()


def _say(text: str) -> None:
    try:
        click.echo(text)
    except OSError:  # its reader is gone, which is no reason to stop; Python would flush again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def missing_libraries() -> list[str]:
    """The libraries of a service that are not installed: grading a file needs none of them."""
    return [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]


def _needs_the_service() -> None:
    """Raises UsageError where the service's libraries are not installed."""
    missing = missing_libraries()
    if missing:
        raise UsageError(f"The service needs {', '.join(missing)}.", f"Run `{install_command('service')}`.")


def _keys(data_dir: Path | None, new: bool = False) -> "ApiKeyRepository":
    """Of a server's data folder, or of its database. `new`: it may be made here."""
    _needs_the_service()
    if data_dir is not None and not new and not data_dir.exists() and not data_dir.parent.is_file():
        raise UsageError(f"There is no folder {data_dir}.", "Give the data folder of `assay serve` with --data-dir.")
    settings, _ = _settings(data_dir)
    # Here, since grading a file needs none of it.
    from evaluator.service.storage.api_keys import ApiKeyRepository
    from evaluator.service.storage.database import Database

    database = Database(settings.database_url)
    database.upgrade()
    return ApiKeyRepository(database)


@click.command()
@click.option("--host", help="Address to listen on; anything but loopback needs a key.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 takes a free one.  [default: 8000]")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Database, caches and work folders.")
@click.option("--workers", type=click.IntRange(0, 1024), help="Worker processes; 0 where workers run elsewhere.")
def serve(host: str | None, port: int | None, data_dir: Path | None, workers: int | None) -> None:
    """Grade over HTTP until it is stopped: an API, a queue and workers in one command."""
    _needs_the_service()
    settings, machine = _settings(data_dir)
    given = {"host": host, "port": port, "workers": workers}
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    from evaluator.service.server import serve as serve_until_stopped

    serve_until_stopped(settings, machine, _say)


@click.command()
@click.option("--queues", default="compile,sim", show_default=True, help="Of compile, sim, gpu and gpu.UUID.")
@click.option(
    "--workers",
    "processes",
    type=click.IntRange(1, 1024),
    help="Processes; else one for each referee of a GPU, or CPU.",
)
@click.option("--embedded", is_flag=True, hidden=True, help="Be one of the workers inside `assay serve`.")
def worker(queues: str, processes: int | None, embedded: bool) -> None:
    """Grade what waits in the queues of a service (ASSAY_BROKER_URL, ASSAY_DATABASE_URL) until stopped."""
    code = 0
    machine, settings = MachineSettings.from_environment(), ServiceSettings.from_environment()
    # What they import takes as long as a whole grading.
    if embedded:
        from evaluator.service.workers.worker import run_embedded

        run_embedded(machine, settings)
    else:
        from evaluator.service.storage.models import is_gpu_queue
        from evaluator.service.workers.celery_app import run_workers

        chosen = tuple(name.strip() for name in queues.split(",") if name.strip())
        usual = os.cpu_count() or 1
        if processes is None and any(map(is_gpu_queue, chosen)):
            from evaluator.pipeline.toolbox import Toolbox

            usual = max(1, Toolbox(machine).gpu_count * machine.referees_per_gpu)  # each judges one at a time
        code = run_workers(machine, settings, chosen, processes or usual)
    sys.exit(code)


@click.group()
def keys() -> None:
    """Keys of callers (while there is none, a service is for loopback alone), and the one that signs verdicts."""


@keys.command(name="add")
@click.argument("name")
@click.option("--expires-days", type=click.FloatRange(min=0, min_open=True), help="How long it is valid.")
@click.option("--per-minute", type=_COUNT, help="Most evaluations that it may ask for in a minute.")
@click.option("--concurrent", type=_COUNT, help="Most evaluations that it may have under way.")
@click.option("--admin", is_flag=True, help="May see everyone's evaluations, and the metrics.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The server's data folder.")
def add_key(
    name: str,
    expires_days: float | None,
    per_minute: int | None,
    concurrent: int | None,
    admin: bool,
    data_dir: Path | None,
) -> None:
    """Make a key for NAME. Its secret is shown once, on standard output, and cannot be shown again."""
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise UsageError("This cannot be the name of a key.", "Give up to 100 printable characters.")
    expires_at = time.time() + expires_days * _DAY_S if expires_days is not None else None
    # Also what is no number at all: such a key would never expire.
    if expires_at is not None and not expires_at <= _END_OF_TIME_S:
        raise UsageError(f"A key cannot be valid for {expires_days:g} days.", "Leave --expires-days out.")
    key, secret = _keys(data_dir, new=True).create(
        name, expires_at=expires_at, per_minute=per_minute, concurrent=concurrent, admin=admin
    )
    click.echo(f"{key.id} for {name}; the secret follows, and is not shown again:", err=True)
    click.echo(secret)


@keys.command(name="list")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The server's data folder.")
def list_keys(data_dir: Path | None) -> None:
    """List all keys, without their secrets: what each may do, what it has asked for, and when it was last used."""
    now = time.time()
    repository = _keys(data_dir)
    usage = repository.usage()
    every = repository.list()
    if not every:
        click.echo("There is no key yet; `assay keys add NAME` makes one.", err=True)
    for key in every:
        state = "revoked" if key.revoked_at is not None else "valid" if key.is_live(now) else "expired"
        told = [key.id, state, "admin" if key.admin else "user", f"made {_day(key.created_at)}"]
        told += [f"until {_day(key.expires_at)}"] if key.expires_at is not None else []
        told += [f"{key.quota.per_minute} a minute"] if key.quota.per_minute is not None else []
        told += [f"{key.quota.concurrent} at once"] if key.quota.concurrent is not None else []
        told += [f"last used {_day(key.used_at)}" if key.used_at is not None else "never used"]
        if (used := usage.get(key.id)) is not None:
            told += [f"{used.last_day} evaluations in 24 h, {used.under_way} under way, {used.kept} kept"]
        click.echo("  ".join([*told, key.name]))


@keys.command(name="signing")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The folder that keeps the key.")
def signing_key(data_dir: Path | None) -> None:
    """Print the public key that verdicts are signed with here, for others to give to `assay verify --key`."""
    _, machine = _settings(data_dir)
    from evaluator.pipeline.toolbox import Toolbox

    signer = Toolbox(machine).signer
    if signer is None:
        raise UsageError(f"No key can be kept in {machine.data_dir}.", "Make it writable, or set ASSAY_SIGNING_KEY.")
    click.echo(f"key {signer.key_id}; its public key follows:", err=True)
    click.echo(signer.public_key)


@keys.command(name="revoke")
@click.argument("named", metavar="KEY")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The server's data folder.")
def revoke_key(named: str, data_dir: Path | None) -> None:
    """End KEY, an ID or the name of one key, at once."""
    repository = _keys(data_dir)
    key = _named(repository, named)
    if key is None or not repository.revoke(key.id):
        if any(named in (one.id, one.name) for one in repository.list()):
            raise UsageError(f"The key {named!r} was revoked before.", "Nothing is left to do.")
        raise UsageError(f"There is no key {named!r} to revoke.", "`assay keys list` shows IDs and names.")
    click.echo(f"{key.id} ({key.name}) is revoked.")


@keys.command(name="rotate")
@click.argument("named", metavar="KEY")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The server's data folder.")
def rotate_key(named: str, data_dir: Path | None) -> None:
    """Give KEY, an ID or the name of one key, a new secret; the old one ends at once. The new one is shown once."""
    repository = _keys(data_dir)
    key = _named(repository, named)
    secret = None if key is None else repository.rotate(key.id)
    if key is None or secret is None:
        raise UsageError(f"There is no valid key {named!r} to rotate.", "`assay keys list` shows IDs and names.")
    click.echo(f"{key.id} for {key.name}; its new secret follows, and is not shown again:", err=True)
    click.echo(secret)


def _named(repository: "ApiKeyRepository", named: str) -> "Key | None":
    """The key that is not revoked and has this ID, or alone this name. Raises UsageError where several have it."""
    live = [key for key in repository.list() if key.revoked_at is None]
    found = [key for key in live if key.id == named] or [key for key in live if key.name == named]
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} keys are called {named!r}.", f"Give the ID of one: {', '.join(key.id for key in found)}."
        )
    return found[0] if found else None


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


@click.command(name="env")
def print_env() -> None:
    """Print the `.env` of docker-compose.yml, with new secrets: `assay env > .env`, once for each stack."""
    values = {name: secrets.token_hex(32) for name in COMPOSE_SECRETS}
    try:
        group = str(DOCKER_SOCKET.stat().st_gid)
    except OSError:
        group = USUAL_DOCKER_GROUP
        with contextlib.suppress(OSError):  # where nothing can be said, the comment beside it says the same
            told = f"assay: there is no {DOCKER_SOCKET} here, so DOCKER_GID is a guess: set it on the host."
            click.echo(told, err=True)
    text = _compose_env(values | {"DOCKER_GID": group})
    with printing():
        with contextlib.suppress(OSError, ValueError):  # it holds secrets: where it is a file, its owner's alone
            if stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
                os.fchmod(sys.stdout.fileno(), 0o600)
        click.echo(text, nl=False)


def _compose_env(values: Mapping[str, str]) -> str:
    """The file with these values. Raises InternalCommandError rather than give one that cannot serve."""
    made = [values[name] for name in COMPOSE_SECRETS]
    if len(set(made)) < len(made) or not all(map(_SECRET.fullmatch, made)):
        raise InternalCommandError("No random secrets can be made here: nothing is printed.")
    return COMPOSE_ENV.read_text(encoding="utf-8").format_map(values)
