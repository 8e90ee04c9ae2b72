"""What the machine's owner may set, each as a variable `ASSAY_…`.

What a caller may set for one evaluation is `common.contract.Settings`.
"""

import contextlib
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from evaluator.errors import UsageError

_SANDBOXES = ("auto", "docker", "bubblewrap", "process")


@dataclass(frozen=True)
class MachineSettings:
    """The settings of this machine."""

    data_dir: Path
    """Caches and work folders (`ASSAY_DATA_DIR`; else `assay` in the user's cache folder)."""
    cache_bytes: int = 4 << 30
    """Capacity of the compilation cache (`ASSAY_CACHE_BYTES`)."""
    sandbox: Literal["auto", "docker", "bubblewrap", "process"] = "auto"
    """Isolation of untrusted work (`ASSAY_SANDBOX`)."""
    gpu: str = ""
    """The GPU to grade on, by UUID or number (`ASSAY_GPU`); empty takes the first."""
    jobs_per_runner: int = 1
    """How many programs one CUDA context serves (`ASSAY_JOBS_PER_RUNNER`); 1 gives each its own."""
    runners_ahead: int = 2
    """How many contexts are kept ready (`ASSAY_RUNNERS_AHEAD`)."""
    referee_idle_s: float = 600.0
    """How long a GPU's referee waits for the next job before it ends (`ASSAY_REFEREE_IDLE_S`)."""
    signing_key: str = field(default="", repr=False)
    """Private key that verdicts are signed with, 64 hexadecimal digits (`ASSAY_SIGNING_KEY`, or the file named by
    `ASSAY_SIGNING_KEY_FILE`); empty takes the one that the data folder keeps."""

    @staticmethod
    def from_environment() -> "MachineSettings":
        """Read the variables. Raises UsageError for a value that cannot be."""
        cache_home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        try:
            data_dir = Path(os.environ.get("ASSAY_DATA_DIR") or f"{cache_home}/assay").expanduser()
        except RuntimeError as error:  # a user without a home, as in many containers
            raise UsageError("This user has no home folder for caches.", "Set ASSAY_DATA_DIR to a folder.") from error
        sandbox = os.environ.get("ASSAY_SANDBOX", "auto")
        if sandbox not in _SANDBOXES:
            raise UsageError(f"ASSAY_SANDBOX is {sandbox!r}.", f"Set it to one of {', '.join(_SANDBOXES)}.")
        return MachineSettings(
            data_dir.absolute(),
            _number("ASSAY_CACHE_BYTES", 4 << 30, 1 << 20, "a number of bytes"),
            cast(Literal["auto", "docker", "bubblewrap", "process"], sandbox),
            os.environ.get("ASSAY_GPU", ""),
            _number("ASSAY_JOBS_PER_RUNNER", 1, 1, "a number of jobs"),
            _number("ASSAY_RUNNERS_AHEAD", 2, 1, "a number of contexts"),
            _number("ASSAY_REFEREE_IDLE_S", 600, 1, "a number of seconds"),
            _signing_key(),
        )

    @property
    def signing_key_file(self) -> Path:
        """Where the data folder keeps a signing key, once it has one."""
        return self.data_dir / "signing-key"


@dataclass(frozen=True)
class ServiceSettings:
    """What the owner of a service may set beside `MachineSettings`."""

    data_dir: Path
    """`ASSAY_DATA_DIR`: the database file and the server's own secret, where no variable names others."""
    database_url: str
    """Where evaluations are kept (`ASSAY_DATABASE_URL`; else an SQLite file in the data folder)."""
    broker_url: str = ""
    """Redis, for workers on other machines (`ASSAY_BROKER_URL`); empty runs workers inside `assay serve`."""
    host: str = "127.0.0.1"
    """Address to listen on (`ASSAY_HOST`)."""
    port: int = 8000
    """Port to listen on (`ASSAY_PORT`); 0 takes a free one."""
    workers: int = 2
    """Worker processes inside `assay serve` (`ASSAY_WORKERS`; else one for each CPU); 0 where they run elsewhere."""
    require_keys: bool = False
    """Ask for a key even while none exists, and even on loopback (`ASSAY_REQUIRE_KEYS`)."""
    secret: str = ""
    """Text that the keys of reusable verdicts are made with (`ASSAY_SECRET`; else a file in the data folder)."""
    max_queued: int = 10_000
    """Evaluations that may wait at one time, all callers together (`ASSAY_MOST_QUEUED`)."""
    wait_s: float = 60.0
    """How long a caller waits for a verdict who does not say (`ASSAY_WAIT_S`)."""
    max_wait_s: float = 600.0
    """How long a caller may ask to wait (`ASSAY_MOST_WAIT_S`)."""
    body_bytes: int = 20 << 20
    """Largest body of a request (`ASSAY_BODY_BYTES`)."""
    batch_bytes: int = 64 << 20
    """Largest body of a batch (`ASSAY_BATCH_BYTES`)."""
    bodies_bytes: int = 256 << 20
    """Bodies that may be on their way at one time, all callers together (`ASSAY_BODIES_BYTES`)."""
    receive_s: float = 30.0
    """How long a request may take to arrive (`ASSAY_RECEIVE_S`)."""
    connections: int = 16_384
    """Connections that may be open at one time (`ASSAY_CONNECTIONS`)."""
    lease_s: float = 30.0
    """How long a worker that is not heard of keeps an evaluation (`ASSAY_LEASE_S`)."""
    drain_s: float = 30.0
    """How long what runs may go on after a request to stop (`ASSAY_DRAIN_S`)."""
    retain_s: float = 30 * 86400.0
    """How long finished evaluations are kept (`ASSAY_RETAIN_S`)."""

    @staticmethod
    def from_environment() -> "ServiceSettings":
        """Read the variables. Raises UsageError for a value that cannot be."""
        data_dir = MachineSettings.from_environment().data_dir
        return ServiceSettings(
            data_dir,
            os.environ.get("ASSAY_DATABASE_URL") or f"sqlite:///{data_dir / 'assay.db'}",
            _broker(os.environ.get("ASSAY_BROKER_URL", "")),
            os.environ.get("ASSAY_HOST") or "127.0.0.1",
            _number("ASSAY_PORT", 8000, 0, "a port"),
            _number("ASSAY_WORKERS", os.cpu_count() or 1, 0, "a number of processes"),
            bool(_number("ASSAY_REQUIRE_KEYS", 0, 0, "1 or 0")),
            os.environ.get("ASSAY_SECRET", ""),
            _number("ASSAY_MOST_QUEUED", 10_000, 1, "a number of evaluations"),
            _number("ASSAY_WAIT_S", 60, 0, "a number of seconds"),
            _number("ASSAY_MOST_WAIT_S", 600, 0, "a number of seconds"),
            _number("ASSAY_BODY_BYTES", 20 << 20, 1 << 10, "a number of bytes"),
            _number("ASSAY_BATCH_BYTES", 64 << 20, 1 << 10, "a number of bytes"),
            _number("ASSAY_BODIES_BYTES", 256 << 20, 1 << 10, "a number of bytes"),
            _number("ASSAY_RECEIVE_S", 30, 1, "a number of seconds"),
            _number("ASSAY_CONNECTIONS", 16_384, 1, "a number of connections"),
            _number("ASSAY_LEASE_S", 30, 3, "a number of seconds"),
            _number("ASSAY_DRAIN_S", 30, 0, "a number of seconds"),
            _number("ASSAY_RETAIN_S", 30 * 86400, 60, "a number of seconds"),
        )


def kept_secret(file: Path) -> bytes:
    """What `file` holds, for its owner's eyes alone. Raises OSError.

    At the first use it is given 64 hexadecimal digits: 256 random bits.
    """
    if not file.exists():
        # Written aside and linked, so that of two processes that start together both read one whole secret.
        aside = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as opened:
                opened.write(secrets.token_hex(32))
            with contextlib.suppress(FileExistsError):
                os.link(aside, file)
        finally:
            aside.unlink()
    return file.read_bytes()


def _signing_key() -> str:
    """Raises UsageError; what it says never shows the key."""
    text, where = os.environ.get("ASSAY_SIGNING_KEY", ""), "ASSAY_SIGNING_KEY"
    named = os.environ.get("ASSAY_SIGNING_KEY_FILE", "")
    if not text and named:
        where = f"The signing key in {named}"
        try:
            text = Path(named).read_text(encoding="ascii", errors="replace").strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"{where} cannot be read: {why}.", "Set ASSAY_SIGNING_KEY_FILE to a file that holds one."
            ) from error
        if not text:
            raise UsageError(f"{where} is empty.", _MAKE_A_KEY)
    if text and not re.fullmatch("[0-9a-f]{64}", text):
        raise UsageError(f"{where} is no signing key: that is 64 hexadecimal digits.", _MAKE_A_KEY)
    return text


_MAKE_A_KEY = "Make one with `openssl rand -hex 32`."


def _broker(url: str) -> str:
    # Said at the start: an address that never answers is taken for a Redis that is away for a while.
    if url and not re.match(r"(rediss?|redis\+socket|sentinel)://[^/\s]*.", url):
        raise UsageError("ASSAY_BROKER_URL is no address of a Redis.", "Write it as redis://:PASSWORD@HOST/0.")
    return url


def _number(variable: str, default: int, least: int, what: str) -> int:
    text = os.environ.get(variable, str(default))
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < least:
        raise UsageError(f"{variable} is {text[:100]!r}.", f"Set it to {what}, at least {least}.")
    return int(text)
