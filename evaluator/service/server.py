"""`assay serve`: everything that has to be in order before the first request, and the end of all that was started."""

import asyncio
import contextlib
import ctypes
import errno
import gc
import ipaddress
import os
import resource
import shlex
import signal
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import h11
import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from evaluator.errors import SandboxError, StorageError, UsageError
from evaluator.pipeline.toolbox import Toolbox
from evaluator.sandbox.selftest import probe_sandbox
from evaluator.service import logs
from evaluator.service.api.app import create_app
from evaluator.service.api.notifier import Notifier
from evaluator.service.arrivals import Arrivals
from evaluator.service.connections import HEADERS_BYTES, HttpConnection
from evaluator.service.storage.api_keys import ApiKeyRepository
from evaluator.service.storage.evaluations import EvaluationRepository
from evaluator.service.storage.storage import open_storage
from evaluator.service.turns import Turns
from evaluator.service.workers.celery_app import CeleryAnnouncer
from evaluator.service.workers.embedded import WorkerPool
from evaluator.service.workers.sweeper import Sweeper
from evaluator.settings import MachineSettings, ServiceSettings, kept_secret, unknown_variables

HEADERS_S: Final = 10.0
"""How long the headers of a request may take to arrive."""
_KEEP_ALIVE_S: Final = 8
_UNREAD_S: Final = 60.0
"""How long a caller may leave an answer unread."""
_LATER_S: Final = 5.0
"""A body that comes too slowly is refused in words first, and its connection ended so much later."""
_NUDGED_S: Final = 0.25
"""How often evaluations are looked at that embedded workers say nothing about: their progress, what a sweep ended."""
_SPARE_FILES: Final = 512
"""Open files beside the connections: the database, the logs, the workers' pipes."""

_BACKLOG: Final = 4096
"""Connections that may wait to be taken."""

_M_MMAP_THRESHOLD: Final = -3
"""mallopt's number for it, in glibc's malloc.h."""
_OWN_MAPPING_BYTES: Final = 256 << 10
"""A block of memory of this size goes back to the system when it is freed. glibc raises its own bound, of 128 KiB, to
the largest block that was ever freed, and then keeps the holes that bodies leave between each other."""

_QUEUED: Final = object()
"""The stage of a connection whose request waits for its turn."""

_LOG = logs.logger("server")


def serve(settings: ServiceSettings, machine: MachineSettings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then finish what runs.

    `say` gets lines for the operator: what is there once requests are answered (the first line ends with the
    address), and how it ends.
    Raises UsageError (an address that cannot be listened on, or not without keys), SandboxError (weaker isolation
    than configured), StorageError.
    """
    logs.configure()
    for told in unknown_variables():
        _LOG.warning("unknown_setting", message=told)
    with contextlib.suppress(AttributeError, OSError):  # another C library has no mallopt, and no such habit
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
    with contextlib.ExitStack() as ending:
        storage = open_storage(settings.database_url)
        ending.callback(storage.database.close)
        storage.database.upgrade()
        if not is_loopback(settings.host):
            settings = _with_keys(settings, storage.keys)
        listening = ending.enter_context(_listen(settings))
        embedded = settings.workers > 0 and not settings.broker_url
        facts = _facts(settings, machine, storage.keys, embedded)
        # Embedded workers say what has changed; workers elsewhere have to be watched.
        watch = Notifier(storage.evaluations, _NUDGED_S) if embedded else Notifier(storage.evaluations)
        crew = None
        if embedded:
            ending.callback(Toolbox(machine).release_referees)
            crew = WorkerPool(storage.evaluations, storage.leases, storage.workers, settings, watch.notify)
        announcer = crew or (CeleryAnnouncer(settings.broker_url) if settings.broker_url else _Nobody())
        sweeper = Sweeper(storage.sweeps, announcer, retain_s=settings.retain_s)
        app = create_app(storage, announcer, settings, secret_of(settings), watch)
        server = HttpServer(
            app,
            settings,
            watch,
            ready=lambda: say(_welcome(_address(listening), facts, settings.drain_s)),
            stopping=lambda: say(
                f"Stopping: what runs may finish, for up to {settings.drain_s:g} s. Ctrl-C again ends it at once."
            ),
        )
        if crew is not None:
            crew.start()
        sweeper.start()
        ending.callback(sweeper.stop)
        gc.collect()
        gc.freeze()  # looking through all of this again and again would stop everything for a while each time
        server.run([listening])
        if server.force_exit:  # Ctrl-C twice: the workers end with this process, and give back what they have
            raise KeyboardInterrupt
        if crew is not None:
            crew.stop()
        say(_farewell(storage.evaluations))
    _LOG.info("stopped")


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach a server at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def prove_isolation(machine: MachineSettings) -> tuple[str, int]:
    """Try to break each layer that the configured sandbox promises: its name, and how many held.

    Raises SandboxError.
    """
    sandbox = Toolbox(machine).sandbox
    if machine.sandbox == "auto" and sandbox.name == "process":
        raise SandboxError(
            "No container-like sandbox works on this machine; what is left is the plain process sandbox.",
            "`assay doctor` says what is missing. To accept the weaker isolation, which every verdict will record, "
            "set ASSAY_SANDBOX=process.",
        )
    promised = [layer for layer in probe_sandbox(sandbox) if layer.promised]
    broken = [f"{layer.name} ({layer.detail})" for layer in promised if not layer.holds]
    if broken:
        raise SandboxError(
            f"The sandbox {sandbox.name} does not keep what it promises: {'; '.join(broken)}.",
            "Run `assay doctor`, and fix what it names; or choose another isolation with ASSAY_SANDBOX.",
        )
    return sandbox.name, len(promised)


def secret_of(settings: ServiceSettings) -> bytes:
    """The server's own secret: `ASSAY_SECRET`, else a file of the data folder, made once. Raises StorageError."""
    if settings.secret:
        return settings.secret.encode(errors="surrogateescape")
    file = settings.data_dir / "secret"
    try:
        return kept_secret(file)
    except OSError as error:
        raise StorageError(
            f"The server's secret {file} cannot be read or made: {error.strerror}.", "Set ASSAY_SECRET, or fix it."
        ) from error


class _Nobody:
    """The announcer of a server whose workers ask the database themselves."""

    def announce(self, evaluation_id: str, queue: str) -> None:
        """Nothing to do."""


@dataclass
class _Seen:
    """What a connection was at, when it was last looked at."""

    stage: object
    cycle: object
    """The request that it is at."""
    since_s: float
    unread_bytes: int
    unread_since_s: float
    """Since when the caller has read nothing of its answer."""


class HttpServer(uvicorn.Server):
    """Uvicorn, with a look at every connection once a second: who sends or reads too slowly is put out."""

    def __init__(
        self,
        app: Any,
        settings: ServiceSettings,
        watch: Notifier,
        ready: Callable[[], None] = lambda: None,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        """`run([socket])` serves until a signal or `should_exit`.

        `ready` is called once requests are answered, `stopping` once it is to end.
        """
        super().__init__(_config(app, settings))
        self._watch = watch
        self._limits_s = {h11.IDLE: HEADERS_S, h11.SEND_BODY: settings.receive_s + _LATER_S}
        self._ready, self._stopping = ready, stopping
        self._seen: dict[HttpConnection, _Seen] = {}
        self._arrivals: list[Arrivals] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            for one in sockets or ():
                arrivals = Arrivals(one, self._protocol, self._room, self._connection.is_proxy)
                arrivals.begin()
                self._arrivals.append(arrivals)
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        # Callers that wait for a verdict get an answer now, which says where to ask again.
        self._watch.close()
        for one in self._arrivals:
            one.close()
        await super().shutdown(sockets)

    def _room(self) -> int:
        """Connections that may wait to be served: each has a file descriptor already."""
        return max(_SPARE_FILES // 4, self._connection.most - len(self.server_state.connections))

    @property
    def _connection(self) -> type[HttpConnection]:
        return cast(type[HttpConnection], self.config.http_protocol_class)

    def _protocol(self) -> asyncio.Protocol:
        return self._connection(self.config, self.server_state, self.lifespan.state)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._look(time.monotonic())
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGINT; unlike uvicorn's own, do not send them again: workers are to end first."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _look(self, now_s: float) -> None:
        seen, self._seen = self._seen, {}
        for connection in list(self.server_state.connections):
            assert isinstance(connection, HttpConnection)
            unread_bytes = connection.transport.get_write_buffer_size()
            stage: Any = _QUEUED if connection.waits_for_turn else connection.conn.their_state
            here = _Seen(stage, connection.cycle, now_s, unread_bytes, now_s)
            before = seen.get(connection)
            if before is not None and (before.stage, before.cycle) == (here.stage, here.cycle):
                here.since_s = before.since_s
            if before is not None and 0 < before.unread_bytes <= unread_bytes:
                here.unread_since_s = before.unread_since_s
            self._seen[connection] = here
            too_slow = now_s - here.since_s > self._limits_s.get(stage, float("inf"))
            if too_slow or now_s - here.unread_since_s > _UNREAD_S:
                connection.transport.abort()


def _config(app: Any, settings: ServiceSettings) -> uvicorn.Config:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections + _SPARE_FILES
    files = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    most = min(settings.connections, max(1, max(files, soft) - _SPARE_FILES))
    of_address = replace(settings, connections=most).most_of_address
    own: dict[str, Any] = {"most": most, "most_of_address": of_address}
    own |= {"of_address": defaultdict(set), "turns": Turns()}
    connection = cast(type[HttpConnection], type("Connection", (HttpConnection,), own))
    config = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=HEADERS_BYTES,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(settings.drain_s)),
    )
    proxies = ProxyHeadersMiddleware(app, config.forwarded_allow_ips).trusted_hosts
    connection.is_proxy = staticmethod(lambda address: address in proxies)
    return config


def _with_keys(settings: ServiceSettings, keys: ApiKeyRepository) -> ServiceSettings:
    """Settings for a server that others can reach. Raises UsageError where nobody could have a key."""
    now = time.time()
    if not settings.require_keys and not any(key.is_live(now) for key in keys.list()):
        raise UsageError(
            f"There is no key, so this server may listen on loopback alone, and not on {settings.host}.",
            f"Make a key first: `{_add_key(settings)}`. Or set ASSAY_REQUIRE_KEYS=1 and make it later.",
        )
    return replace(settings, require_keys=True)


def _listen(settings: ServiceSettings) -> socket.socket:
    """Raises UsageError."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"Port {settings.port} of {settings.host} is taken: another program listens there.",
                "Choose another with --port (0 takes a free one); `assay doctor` says whether it is an Assay.",
            ) from error
        raise UsageError(
            f"Cannot listen on {settings.host} port {settings.port}: {error.strerror or error}.",
            "Choose another with --host and --port (0 takes a free port).",
        ) from error


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _facts(
    settings: ServiceSettings, machine: MachineSettings, keys: ApiKeyRepository, embedded: bool
) -> dict[str, str]:
    """What an operator wants to know of the server at its start, each in one line. Raises SandboxError."""
    now = time.time()
    valid = sum(key.is_live(now) for key in keys.list())
    facts = {"Keys": f"{valid} valid; `assay keys list` shows {'it' if valid == 1 else 'them'}"}
    if not valid and settings.require_keys:
        facts["Keys"] = f"asked for, and there is none yet: `{_add_key(settings)}`"
    elif not valid:
        facts["Keys"] = f"none: all of this machine may use it, and nobody else can; `{_add_key(settings)}` makes one"
    if embedded:
        name, layers = prove_isolation(machine)
        _LOG.info("isolation proved", sandbox=name, layers=layers)
        facts["Sandbox"] = f"{name}: each of the {layers} layers that it promises was tried, and holds"
        gpu = Toolbox(machine).gpu
        place = f"on {gpu.device}" if gpu is not None else "on the simulator, since no GPU can be used here"
        facts["Workers"] = f"{settings.workers} here, {place}"
    elif settings.broker_url:
        facts["Workers"] = "elsewhere, notified of work through Redis"
    else:
        facts["Workers"] = "none here: what comes waits for an `assay worker` on the same database"
    elsewhere = "" if settings.database_url.startswith("sqlite:") else ", and the database of ASSAY_DATABASE_URL"
    facts["Data"] = f"{settings.data_dir}{elsewhere}"
    return facts


def _welcome(address: str, facts: Mapping[str, str], drain_s: float) -> str:
    pages = {"Pages": f"{address}/ in a browser; {address}/docs explains the API"}
    grading = {"Try": f"assay grade FILE --problem ID --server {address}"}
    told = [f"  {name:8} {text}" for name, text in {**pages, **facts, **grading}.items()]
    ending = f"Ctrl-C stops it; what runs then may finish, for up to {drain_s:g} s."
    return "\n".join([f"Assay listens on {address}", *told, ending])


def _farewell(evaluations: EvaluationRepository) -> str:
    with contextlib.suppress(StorageError):
        waiting = sum(queue.count for queue in evaluations.depth().values())
        if waiting:
            return f"Stopped. {waiting} evaluation{'s wait' if waiting > 1 else ' waits'} for the next start."
    return "Stopped."


def _add_key(settings: ServiceSettings) -> str:
    """The command that makes a key for this very server."""
    folder = f" --data-dir {shlex.quote(str(settings.data_dir))}" if "ASSAY_DATA_DIR" in os.environ else ""
    return f"assay keys add NAME{folder}"
