"""Where a run happens: Ray on this machine or a cluster, and an evaluator elsewhere or started beside the run."""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from common.client.transport import without_path
from trainer.config.schema import EvaluatorSection, TrainingConfig
from trainer.errors import ConfigurationError, OracleLostError, TrainerError

CLUSTER_FILE: Final = Path(__file__).parents[1] / "config" / "cluster" / "aws.yaml"
"""A cluster for `ray up`: nodes of eight GPUs and a head that plans [R12, C13]."""
_START_S: Final = 180.0
_STOP_S: Final = 60.0
_ANSWER_S: Final = 5.0
_NOT_ITS: Final = ("ASSAY_DATABASE_URL", "ASSAY_BROKER_URL", "ASSAY_REQUIRE_KEYS")
"""Variables of a service that may be configured on this machine, and is not the embedded one."""
_LOOPBACK: Final = {"ASSAY_HOST": "127.0.0.1"}
_PLANNED_CPUS: Final = 8
"""Ray plans with so many processors at least: verl's actors reserve some for processes that mostly wait."""
_RESTARTS: Final = 10
"""How often an embedded evaluator that ends is started again."""
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def ray_settings(config: TrainingConfig) -> dict[str, Any]:
    """The keyword arguments of `ray.init` for this run [C13].

    On a running cluster Ray refuses everything about the size of a node: that was said when the node was started
    (`ray start`, or the cluster file). Spilling: Ray's documentation, "Object spilling".
    """
    resources = config.resources
    # What a process of ours prints may be a model's text; workers write their own logs.
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if resources.ray_address:
        return {"address": resources.ray_address, **quiet}
    system: dict[str, Any] = {"max_io_workers": resources.io_workers}
    if resources.spill_folder:
        spilling = {"type": "filesystem", "params": {"directory_path": resources.spill_folder}}
        system["object_spilling_config"] = json.dumps(spilling)
    # verl asks Ray for GPUs by name, so a machine without one makes one up.
    # Ray gives out the first of the visible ones: the last is left for the evaluator.
    gpus = 1 if resources.device == "cpu" else resources.gpus_per_node - resources.evaluator_gpu
    cpus = resources.ray_cpus or max(_PLANNED_CPUS, os.cpu_count() or 1)
    sizes = {"num_cpus": cpus, "num_gpus": gpus, "object_store_memory": resources.object_store_bytes}
    return {
        "address": "local",
        "include_dashboard": False,
        **quiet,
        **{name: value for name, value in sizes.items() if value is not None},
        "_system_config": system,
    }


@contextmanager
def evaluator(config: TrainingConfig) -> Iterator[TrainingConfig]:
    """The configuration with the address of an evaluator that answers; an embedded one is stopped at the end.

    One that is elsewhere is waited for up to `evaluator.start_patience_s`. Raises OracleLostError where it does not
    answer, ConfigurationError where it cannot be started here.
    """
    asked = config.evaluator
    if not asked.embedded:
        wait_for(asked)
        yield config
        return
    folder = Path(config.run_folder).absolute()
    gpu = {"ASSAY_GPU": kept_gpu(config)} if config.resources.evaluator_gpu else {}
    with _Embedded(folder / "evaluator", folder / "evaluator.log", asked.embedded_workers, gpu) as own:
        changed = asked.model_copy(update={"url": own.url, "embedded": False})
        wait_for(changed)
        yield config.model_copy(update={"evaluator": changed})


def assay_here() -> str:
    """The command that an embedded evaluator is started with. Raises ConfigurationError where there is none."""
    beside = Path(sys.executable).with_name("assay")
    found = str(beside) if beside.exists() else shutil.which("assay")
    if found is None:
        raise ConfigurationError(
            "evaluator.embedded is set, and there is no command assay on this machine.",
            "Install the service (pip install 'assay[service]'), or set evaluator.embedded=false and "
            "evaluator.url to a service elsewhere.",
        )
    return found


def kept_gpu(config: TrainingConfig) -> str:
    """The GPU of this machine that `resources.evaluator_gpu` keeps from the models: the last of those of the run."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    numbers = visible.split(",") if visible else [str(number) for number in range(config.resources.gpus_per_node)]
    return numbers[: config.resources.gpus_per_node][-1].strip()


def wait_for(asked: EvaluatorSection) -> dict[str, Any]:
    """What the service at `asked.url` says of its version, once it answers.

    Raises OracleLostError after `start_patience_s`, ConfigurationError for what is no such service.
    """
    deadline = time.monotonic() + asked.start_patience_s
    told = False
    while True:
        try:
            return version_of(asked.url)
        except OSError as error:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise OracleLostError(
                    f"The evaluator at {asked.url} does not answer: {getattr(error, 'reason', error)}.",
                    "Start it (assay serve), set evaluator.url to where it is, or let the run start its own with "
                    "evaluator.embedded=true.",
                ) from error
            if not told:
                told = True
                print(f"Waiting for the evaluator at {asked.url} (up to {left_s:.0f} s) ...", file=sys.stderr)
            time.sleep(min(2.0, max(left_s, 0.01)))


def version_of(url: str) -> dict[str, Any]:
    """What the service at `url` says of its version. Raises OSError where nothing answers, ConfigurationError where
    something else does.
    """
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/version", timeout=_ANSWER_S) as answer:
            found = json.loads(answer.read(1 << 20))
    except urllib.error.HTTPError as error:
        if error.code in (429, 500, 502, 503, 504):
            raise
        raise ConfigurationError(
            f"{url} is not an evaluator: it answers {error.code} when asked for /version.",
            without_path(url) or "Check evaluator.url.",
        ) from error
    except ValueError as error:
        raise ConfigurationError(f"{url} is not an evaluator: {error}.", "Check evaluator.url.") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{url} is not an evaluator: /version is no object.", "Check evaluator.url.")
    return found


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Set by SIGTERM or Ctrl-C, which then no longer interrupt what is under way; a second one does."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    old = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    for number in old:
        signal.signal(number, note)
    try:
        yield asked
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


class _Embedded:
    """`assay serve` as a child process, started again on the same port where it ends by itself."""

    def __init__(self, data: Path, log: Path, workers: int | None, more: dict[str, str]) -> None:
        """`more`: environment variables of its own."""
        self._data, self._log, self._more = data, log, more
        self._workers = workers
        self._port = 0
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._watch: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> "_Embedded":
        self._data.mkdir(parents=True, exist_ok=True)
        self._start()
        self._watch = threading.Thread(target=self._keep_up, name="embedded evaluator", daemon=True)
        self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._end(signal.SIGTERM)
        if self._watch:
            self._watch.join(_STOP_S)

    def _command(self) -> list[str]:
        more = ["--workers", str(self._workers)] if self._workers else []
        return [assay_here(), "serve", "--port", str(self._port), "--data-dir", str(self._data), *more]

    def _start(self) -> None:
        command, parent = self._command(), os.getpid()

        def end_with_the_run() -> None:
            # Nobody would ever stop the service of a run that was killed, and its data is the next start's.
            if _LIBC is not None:
                _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

        # A session of its own: Ctrl-C is for the run, which still needs verdicts for its last step.
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                preexec_fn=end_with_the_run,
                env={name: value for name, value in os.environ.items() if name not in _NOT_ITS}
                | _LOOPBACK
                | self._more,
            )
        assert self._process.stdout is not None
        listening = threading.Event()
        threading.Thread(target=self._read, args=(self._process.stdout, listening), daemon=True).start()
        deadline = time.monotonic() + _START_S
        while not listening.wait(0.1):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                said = self._log.read_text(encoding="utf-8", errors="replace").strip()[-600:]
                raise OracleLostError(
                    f"The embedded evaluator could not be started: {said or 'it printed nothing'}",
                    f"See {self._log}, and what `assay doctor` says.",
                )

    def _read(self, lines: IO[str], listening: threading.Event) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            for line in lines:
                log.write(line)
                log.flush()
                found = re.search(r"http://\S+?:(\d+)", line)
                if found and not listening.is_set():
                    self._port = int(found[1])
                    listening.set()

    def _keep_up(self) -> None:
        for _ in range(_RESTARTS):
            assert self._process is not None
            self._process.wait()
            if self._stopping.wait(0.5):
                return
            with suppress(TrainerError):
                self._start()
        # From here on evaluations fail as those of any evaluator that is down, and the run says so. What a thread has
        # started ends with the thread (PR_SET_PDEATHSIG).
        self._stopping.wait()

    def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
