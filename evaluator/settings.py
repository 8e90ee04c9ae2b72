"""What the machine's owner may set, each as a variable `ASSAY_…`.

What a caller may set for one evaluation is `common.contract.Settings`. Each field names its variable, and what the
variable may hold; pydantic reads them from the environment.
"""

import contextlib
import difflib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, get_type_hints

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model

from evaluator.errors import UsageError

_READ_ELSEWHERE: Final = (
    "ASSAY_COMPUTE_SANITIZER",
    "ASSAY_KEY",
    "ASSAY_NCU",
    "ASSAY_NVCC",
    "ASSAY_REFEREE_PROFILE",
    "ASSAY_SANDBOX_IMAGE",
    "ASSAY_SIGNING_KEY_FILE",
)
"""Read where they are needed: by the toolchain, the GPU's tools and referee, the command line, the sandbox."""
_NOT_OURS: Final = re.compile(
    "ASSAY_(?:TEST|SOAK|TRAIN|TRAINER)(?:_[A-Z_]+)?"
    "|ASSAY_(?:BASE|CUDA|GPU_COUNT|GPU_IMAGE|PUBLISH|SERVICE_IMAGE|COMPILE_PROCESSES|SIM_PROCESSES|TOKEN)"
)
"""Of the tests, the trainer, the images and the compose file."""


def _whole(text: object) -> object:
    # int() would also take signs, spaces, underscores and the digits of other scripts.
    if isinstance(text, str) and not re.fullmatch("[0-9]{1,18}", text):
        raise ValueError("not a whole number")
    return text


def _variable(name: str, what: str = "", least: int | None = None) -> Any:
    """The variable that a field is read from; `what` it may hold, for who sets it to something else."""
    return Field(validation_alias=name, description=what, ge=least)


_Whole = Annotated[int, BeforeValidator(_whole)]
_Seconds = Annotated[float, BeforeValidator(_whole)]
_Switch = Annotated[bool, BeforeValidator(lambda text: _whole(text) and bool(int(str(text))))]


def _data_dir(text: str) -> Path:
    cache_home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(text or f"{cache_home}/assay").expanduser().absolute()
    except RuntimeError as error:  # a user without a home, as in many containers
        raise UsageError("This user has no home folder for caches.", "Set ASSAY_DATA_DIR to a folder.") from error


def _broker(url: str) -> str:
    # Said at the start: an address that never answers is taken for a Redis that is away for a while.
    if url and not re.match(r"(rediss?|redis\+socket|sentinel)://[^/\s]*.", url):
        raise UsageError("ASSAY_BROKER_URL is no address of a Redis.", "Write it as redis://:PASSWORD@HOST/0.")
    return url


@dataclass(frozen=True)
class MachineSettings:
    """The settings of this machine."""

    data_dir: Annotated[Path, BeforeValidator(_data_dir), _variable("ASSAY_DATA_DIR")]
    """Caches and work folders; else `assay` in the user's cache folder."""
    cache_bytes: Annotated[_Whole, _variable("ASSAY_CACHE_BYTES", "a number of bytes", 1 << 20)] = 4 << 30
    """Capacity of the compilation cache, of which PyTorch's prepared headers take half at most."""
    sandbox: Annotated[
        Literal["auto", "docker", "bubblewrap", "process"],
        _variable("ASSAY_SANDBOX", "one of auto, docker, bubblewrap, process"),
    ] = "auto"
    """Isolation of untrusted work."""
    host_tier: Annotated[Literal["auto", "on", "off"], _variable("ASSAY_HOST_TIER", "one of auto, on, off")] = "auto"
    """Whether host code of submissions may run, where they ask for it: `auto` lets it where the sandbox keeps the
    machine from it."""
    gpu: Annotated[str, _variable("ASSAY_GPU")] = ""
    """The GPUs to grade on, by UUID or number, with commas between them; empty takes all of the first one's kind."""
    jobs_per_runner: Annotated[_Whole, _variable("ASSAY_JOBS_PER_RUNNER", "a number of jobs", 1)] = 1
    """How many programs one CUDA context serves; 1 gives each its own."""
    runners_ahead: Annotated[_Whole, _variable("ASSAY_RUNNERS_AHEAD", "a number of contexts", 1)] = 2
    """How many contexts are kept ready."""
    referees_per_gpu: Annotated[_Whole, _variable("ASSAY_REFEREES_PER_GPU", "a number of processes", 1)] = 3
    """How many referees one GPU has: one of them times while the others wait, and several verify at the same time.
    On an H200 three gave more verdicts a minute than one or six (docs/on-a-gpu.md)."""
    trials_together: Annotated[_Whole, _variable("ASSAY_TRIALS_TOGETHER", "a number of trials", 1)] = 12
    """How many small trials of a verification a GPU launches together at most, one after another, and looks at once;
    1 has each launched by itself."""
    referee_idle_s: Annotated[_Seconds, _variable("ASSAY_REFEREE_IDLE_S", "a number of seconds", 1)] = 600.0
    """How long a GPU's referee waits for the next job before it ends."""
    signing_key: Annotated[str, _variable("ASSAY_SIGNING_KEY")] = field(default="", repr=False)
    """Private key that verdicts are signed with, 64 hexadecimal digits (or the file named by
    `ASSAY_SIGNING_KEY_FILE` holds it); empty takes the one that the data folder keeps."""

    @staticmethod
    def from_environment() -> "MachineSettings":
        """Read the variables. Raises UsageError for a value that cannot be."""
        given = _given(MachineSettings)
        if "data_dir" not in given:  # not before: a user without a home has no folder of this kind
            given["data_dir"] = _data_dir("")
        return MachineSettings(**given | {"signing_key": _signing_key(given.get("signing_key", ""))})

    @property
    def signing_key_file(self) -> Path:
        """Where the data folder keeps a signing key, once it has one."""
        return self.data_dir / "signing-key"


@dataclass(frozen=True)
class ServiceSettings:
    """What the owner of a service may set beside `MachineSettings`."""

    data_dir: Annotated[Path, BeforeValidator(_data_dir), _variable("ASSAY_DATA_DIR")]
    """The database file and the server's own secret, where no variable names others."""
    database_url: Annotated[str, _variable("ASSAY_DATABASE_URL")]
    """Where evaluations are kept; else an SQLite file in the data folder."""
    broker_url: Annotated[str, BeforeValidator(_broker), _variable("ASSAY_BROKER_URL")] = ""
    """Redis, for workers on other machines; empty runs workers inside `assay serve`."""
    host: Annotated[str, _variable("ASSAY_HOST")] = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[_Whole, _variable("ASSAY_PORT", "a port", 0)] = 8000
    """Port to listen on; 0 takes a free one."""
    workers: Annotated[_Whole, _variable("ASSAY_WORKERS", "a number of processes", 0)] = 2
    """Worker processes inside `assay serve` (else one for each CPU); 0 where they run elsewhere."""
    require_keys: Annotated[_Switch, _variable("ASSAY_REQUIRE_KEYS", "1 or 0")] = False
    """Ask for a key even while none exists, and even on loopback."""
    secret: Annotated[str, _variable("ASSAY_SECRET")] = ""
    """Text that the keys of reusable verdicts are made with; else a file in the data folder."""
    max_queued: Annotated[_Whole, _variable("ASSAY_MOST_QUEUED", "a number of evaluations", 1)] = 10_000
    """Evaluations that may wait at one time, all callers together."""
    most_references: Annotated[_Whole, _variable("ASSAY_MOST_REFERENCES", "a number of problems", 0)] = 1000
    """Problems of its own that are kept for one caller; 0 takes none."""
    wait_s: Annotated[_Seconds, _variable("ASSAY_WAIT_S", "a number of seconds", 0)] = 60.0
    """How long a caller waits for a verdict who does not say."""
    max_wait_s: Annotated[_Seconds, _variable("ASSAY_MOST_WAIT_S", "a number of seconds", 0)] = 600.0
    """How long a caller may ask to wait."""
    body_bytes: Annotated[_Whole, _variable("ASSAY_BODY_BYTES", "a number of bytes", 1 << 10)] = 20 << 20
    """Largest body of a request."""
    batch_bytes: Annotated[_Whole, _variable("ASSAY_BATCH_BYTES", "a number of bytes", 1 << 10)] = 64 << 20
    """Largest body of a batch."""
    bodies_bytes: Annotated[_Whole, _variable("ASSAY_BODIES_BYTES", "a number of bytes", 1 << 10)] = 256 << 20
    """Bodies that may be on their way at one time, all callers together."""
    receive_s: Annotated[_Seconds, _variable("ASSAY_RECEIVE_S", "a number of seconds", 1)] = 30.0
    """How long a request may take to arrive."""
    connections: Annotated[_Whole, _variable("ASSAY_CONNECTIONS", "a number of connections", 1)] = 16_384
    """Connections that may be open at one time."""
    address_connections: Annotated[_Whole, _variable("ASSAY_ADDRESS_CONNECTIONS", "a number of connections", 1)] = (
        1024
    )
    """Of those, how many one address may have whose caller has shown no key; see `most_of_address`."""
    lease_s: Annotated[_Seconds, _variable("ASSAY_LEASE_S", "a number of seconds", 3)] = 30.0
    """How long a worker that is not heard of keeps an evaluation."""
    drain_s: Annotated[_Seconds, _variable("ASSAY_DRAIN_S", "a number of seconds", 0)] = 30.0
    """How long what runs may go on after a request to stop."""
    retain_s: Annotated[_Seconds, _variable("ASSAY_RETAIN_S", "a number of seconds", 60)] = 30 * 86400.0
    """How long finished evaluations are kept."""

    @property
    def most_of_address(self) -> int:
        """Connections without a key that one address may have: never more than a quarter of all."""
        return max(1, min(self.address_connections, self.connections // 4))

    @staticmethod
    def from_environment() -> "ServiceSettings":
        """Read the variables. Raises UsageError for a value that cannot be."""
        data_dir = MachineSettings.from_environment().data_dir
        given = {"workers": os.cpu_count() or 1} | _given(ServiceSettings)
        database_url = given.get("database_url") or f"sqlite:///{data_dir / 'assay.db'}"
        host = given.get("host") or "127.0.0.1"
        return ServiceSettings(**given | {"data_dir": data_dir, "database_url": database_url, "host": host})


def variables() -> frozenset[str]:
    """The names of all variables that the evaluator reads."""
    read = (
        model for settings in (MachineSettings, ServiceSettings) for model in _reader(settings).model_fields.values()
    )
    return frozenset({*_READ_ELSEWHERE, *(str(one.validation_alias) for one in read)})


def unknown_variables(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """What to say of each variable `ASSAY_…` that no setting reads: set in vain, often for a slip of the pen."""
    known = sorted(variables())
    told = []
    for name in sorted(environment):
        if name.startswith("ASSAY_") and name not in known and not _NOT_OURS.fullmatch(name):
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            told.append(f"no setting is called {name[:100]}{f'; did you mean {near[0]}?' if near else '.'}")
    return tuple(told)


@cache
def _reader(settings: type) -> type[BaseModel]:
    """Takes the variables of a class of settings from an environment, each of them if it is set."""
    hints = get_type_hints(settings, include_extras=True)
    given: dict[str, Any] = {one.name: (hints[one.name], None) for one in fields(settings)}
    return create_model(settings.__name__, **given)


def _given(settings: type) -> dict[str, Any]:
    """The fields whose variables are set. Raises UsageError for the first whose value cannot be."""
    reader = _reader(settings)
    try:
        return reader.model_validate(dict(os.environ)).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        one = next(one for one in reader.model_fields.values() if one.validation_alias == name)
        least = [f", at least {limit.ge}" for limit in one.metadata if getattr(limit, "ge", None) is not None]
        raise UsageError(
            f"{name} is {str(first['input'])[:100]!r}.", f"Set it to {one.description}{''.join(least)}."
        ) from None


def kept_secret(file: Path) -> bytes:
    """What `file` holds, for its owner's eyes alone. Raises OSError.

    At the first use it is given 64 hexadecimal digits: 256 random bits. So is a file that is empty, as one may be
    that was made just before a machine lost its power.
    """
    if not file.exists():
        # Written aside and linked, so that of two processes that start together both read one whole secret.
        aside = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                _make_secret(opened)
            with contextlib.suppress(FileExistsError):
                os.link(aside, file)
        finally:
            aside.unlink()
        _keep_names(file.parent)
    if not (kept := file.read_bytes()):
        with file.open("r+b") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            if not (kept := opened.read()):
                kept = _make_secret(opened)
    return kept


def _keep_names(folder: Path) -> None:
    """Have the names of files in a folder on the disk, where its file system takes that request. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some of networks, of other systems and of user space keep names in their own time, and know no such request.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
            raise
    finally:
        os.close(descriptor)


def _make_secret(opened: BinaryIO) -> bytes:
    """Write one, which is on the disk then: verifiers know it, and sessions depend on it."""
    made = secrets.token_hex(32).encode()
    opened.write(made)
    opened.flush()
    os.fsync(opened.fileno())
    return made


def _signing_key(text: str) -> str:
    """Raises UsageError; what it says never shows the key."""
    where = "ASSAY_SIGNING_KEY"
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
