"""How long PyTorch takes for a problem of someone else: timed in a sandboxed process, kept for each GPU and version.

What was measured is believed for a day, and as long as the GPU itself takes as long for something known (the probe)
as it did then.
"""

import contextlib
import importlib.metadata
import importlib.util
import json
import math
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, get_args

from common.contract import BaselineName, BaselineTime, form_of
from common.wire import Json
from evaluator.disk_cache import Cache, key_of
from evaluator.errors import InfrastructureError
from evaluator.foreign.zygote import gpu_devices, gpu_environment, readable_packages
from evaluator.python_command import last_words, own_python
from evaluator.sandbox.sandbox import Job, Limits, Sandbox, SandboxSession, SessionEndedError

BASELINES: Final[tuple[BaselineName, ...]] = get_args(BaselineName)
KEPT_S: Final = 86400.0
FAILED_KEPT_S: Final = 600.0
"""How long it is believed that a baseline cannot be built."""
DRIFT: Final = 0.05
"""By which share the probe may take longer or shorter than when a baseline was measured."""
_BUILT_S: Final = {"eager": 60.0, "cuda_graph": 60.0, "compile": 180.0, "compile_max_autotune": 420.0}
_SPARE_S: Final = 1800.0
"""How long a process may wait for a file."""
_MEMORY_BYTES: Final = 48 << 30
_MOST_MESSAGE_BYTES: Final = 1 << 16
_MOST_SAMPLES: Final = 1000
_LONGEST_US: Final = 1e9


@dataclass(frozen=True)
class Subject:
    """What is timed: a file of someone else at sizes of its own."""

    text: bytes
    constants: Mapping[str, int]


@dataclass(frozen=True)
class MeasuredBaseline:
    """One baseline as it was measured, or why it could not be."""

    name: BaselineName
    samples_us: tuple[float, ...]
    why_not: str | None
    at_s: float
    """When, seconds since 1970."""
    probe_us: Mapping[str, float]
    """How long the GPU took for something known, in the same minute."""

    def is_current(self, now_s: float, probe_us: Mapping[str, float]) -> bool:
        """Whether it may stand for a measurement now, while the probe takes so long."""
        age_s = now_s - self.at_s
        if not 0 <= age_s < (FAILED_KEPT_S if self.why_not is not None else KEPT_S):
            return False
        return self.why_not is not None or not drifted(self.probe_us, probe_us)

    def as_told(self, now_s: float) -> BaselineTime:
        """As the verdict shows it."""
        middle = sorted(self.samples_us)[len(self.samples_us) // 2] if self.samples_us else None
        return BaselineTime(
            name=self.name,
            latency_us=middle,
            launches=len(self.samples_us),
            why_not=self.why_not,
            age_s=round(max(0.0, now_s - self.at_s), 1),
        )


_kept: Final = Json(MeasuredBaseline)


def drifted(before_us: Mapping[str, float], now_us: Mapping[str, float]) -> bool:
    """Whether a device takes another time for the same than it did."""
    return set(before_us) != set(now_us) or any(
        abs(now_us[name] / before - 1.0) > DRIFT for name, before in before_us.items()
    )


class BaselineStore:
    """The baselines of one device, kept in the cache."""

    def __init__(
        self, sandbox: Sandbox, cache: Cache, gpu: str, driver: str, probe: Callable[[], Mapping[str, float]]
    ) -> None:
        """`gpu`: its UUID; empty has them timed on the processor. `probe`: how long it takes now for something known,
        µs by name.
        """
        self._sandbox, self._cache, self._gpu, self._driver, self._probe = sandbox, cache, gpu, driver, probe
        self._spare: tuple[float, SandboxSession] | None = None
        """A process that imports PyTorch ahead of the next file, and since when; on a GPU, where time is dear."""

    def open(self, subject: Subject, wanted: Sequence[BaselineName]) -> "Baselines":
        """Those of one file: what is not known of `wanted` is being prepared from now on."""
        probe_us, now_s = self._probe(), time.time()
        known = {name: found for name in BASELINES if (found := self._read(subject, name)) is not None}
        current = {name: found for name, found in known.items() if found.is_current(now_s, probe_us)}
        lacking = [name for name in dict.fromkeys(wanted) if name not in current]
        return Baselines(self, subject, current, lacking, self._process() if lacking else None)

    def _process(self) -> SandboxSession:
        spare, self._spare = self._spare, None
        if spare is not None and time.monotonic() - spare[0] < _SPARE_S:
            return spare[1]
        if spare is not None:
            spare[1].finish()
        return self.new_process()

    def new_process(self) -> SandboxSession:
        """One that has not begun to import anything."""
        return self._sandbox.start(_job(self._gpu))

    def look_ahead(self) -> None:
        """Have a process ready for the next file."""
        if self._gpu and self._spare is None:
            with contextlib.suppress(InfrastructureError):  # the next file starts its own, or says why it cannot
                self._spare = time.monotonic(), self.new_process()

    def close(self) -> None:
        """End the process that waits for a file."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare[1].finish()

    def key(self, subject: Subject, name: BaselineName) -> str:
        """Under which one is kept: by device, versions, file and sizes."""
        sizes = json.dumps(dict(sorted(subject.constants.items())))
        return key_of("baseline", name, self._gpu, self._driver, *_versions(), _own_digest(), subject.text, sizes)

    def _read(self, subject: Subject, name: BaselineName) -> MeasuredBaseline | None:
        nothing: dict[str, bytes] = {}
        entry, _ = self._cache.get_or_make(self.key(subject, name), lambda: nothing)
        return _kept.load(entry["measured"]) if "measured" in entry else None

    def keep(self, subject: Subject, measured: MeasuredBaseline) -> None:
        """For evaluations to come."""
        self._cache.update(self.key(subject, measured.name), lambda _: {"measured": _kept.dump(measured)})

    @property
    def device(self) -> str:
        """On which the process computes."""
        return "cuda" if self._gpu else "cpu"

    def probe(self) -> Mapping[str, float]:
        """How long the device takes now for something known."""
        return self._probe()


class Baselines:
    """Those of one file for one evaluation. Leaving the context ends the process that times them."""

    def __init__(
        self,
        store: BaselineStore,
        subject: Subject,
        current: Mapping[BaselineName, MeasuredBaseline],
        lacking: Sequence[BaselineName],
        session: SandboxSession | None,
    ) -> None:
        self._store, self._subject, self._session = store, subject, session
        self._found, self._lacking = dict(current), list(lacking)
        self._used = session is not None
        if session is not None:
            # It imports PyTorch and builds the first one while the submission is verified.
            asked = {
                "form": form_of(subject.text),
                "text": subject.text.decode("utf-8-sig"),
                "sizes": dict(subject.constants),
                "device": store.device,
                "baselines": self._lacking,
            }
            try:
                self._ask(session, asked)
            except SessionEndedError:  # one that waited for a file, and was ended meanwhile
                session.finish()
                self._session = session = store.new_process()
                try:
                    self._ask(session, asked)
                except SessionEndedError as ended:
                    self._fail(ended)

    def _ask(self, session: SandboxSession, asked: Mapping[str, Any]) -> None:
        session.allow(sum(_BUILT_S[name] for name in self._lacking) + 60.0)
        session.send(_message(asked))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            self._session.finish()
        if self._used:
            self._store.look_ahead()

    def measured(self) -> Mapping[BaselineName, MeasuredBaseline]:
        """All that are known, those that were asked for among them. The device should do nothing else meanwhile."""
        while self._lacking and self._session is not None:
            name = self._lacking[0]
            try:
                self._session.allow(_BUILT_S[name])
                said = _received(self._session)
                if said.get("ready") == name:
                    self._session.send(_message({"go": name}))
                    said = _received(self._session)
                self._keep(name, *_times_in(said, name))
            except SessionEndedError as ended:
                self._fail(ended)
            except (ValueError, KeyError, TypeError, AttributeError):
                self._keep(name, (), "its process answers in no form that is known")
                self._fail(SessionEndedError("it was ended"))
        return self._found

    def _keep(self, name: BaselineName, samples_us: tuple[float, ...], why_not: str | None) -> None:
        found = MeasuredBaseline(name, samples_us, why_not, time.time(), self._store.probe())
        self._found[name] = found
        self._store.keep(self._subject, found)
        if name in self._lacking:
            self._lacking.remove(name)

    def _fail(self, ended: SessionEndedError) -> None:
        """Its process is gone: what it had not timed yet has no time. Not kept, for it may do better another time."""
        session, self._session = self._session, None
        said = ""
        if session is not None:
            result = session.finish()
            said = result.limit_hit or last_words(result.stderr.decode(errors="replace"), 300).replace("\n", " ")
        for name in self._lacking:
            why = f"its process ended ({ended}{': ' + said if said else ''})"
            self._found[name] = MeasuredBaseline(name, (), why, time.time(), {})
        self._lacking = []


def _times_in(said: Mapping[str, Any], name: str) -> tuple[tuple[float, ...], str | None]:
    """What an untrusted process said of a baseline. Raises ValueError for what cannot be."""
    if said.get("failed") == name:
        return (), str(said["why"])[:300]
    times = tuple(float(one) for one in said["us"])
    if said.get("times") != name or not 1 <= len(times) <= _MOST_SAMPLES:
        raise ValueError("times of another, or none")
    if not all(math.isfinite(one) and 0 < one < _LONGEST_US for one in times):
        raise ValueError("a time that nothing takes")
    return times, None


def _message(content: Mapping[str, Any]) -> bytes:
    encoded = json.dumps(content).encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _received(session: SandboxSession) -> dict[str, Any]:
    (length,) = struct.unpack("<Q", session.receive(8))
    if length > _MOST_MESSAGE_BYTES:
        raise ValueError("a message without end")
    said = json.loads(bytes(session.receive(length)))
    if not isinstance(said, dict):
        raise ValueError("not a message")
    return said


def _job(gpu: str) -> Job:
    """The process. To compile takes a C compiler, many files and processes."""
    own = {
        "USER": "assay",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    return Job(
        argv=tuple(own_python("evaluator.foreign.inside.baselines")),
        readable=readable_packages(),
        environment={**own, **gpu_environment(gpu)},
        devices=gpu_devices() if gpu else (),
        limits=Limits(
            wall_s=_SPARE_S + sum(_BUILT_S.values()) + 300.0,
            cpu_s=3600.0,
            memory_bytes=_MEMORY_BYTES,
            address_space=not gpu,
            processes=1024,
            open_files=1024,
        ),
    )


def _versions() -> tuple[str, ...]:
    """Of what computes a baseline."""
    found = [f"torch {importlib.metadata.version('torch')}"]
    if importlib.util.find_spec("triton") is not None:
        found.append(f"triton {importlib.metadata.version('triton')}")
    return (*found, os.uname().machine)


def _own_digest() -> str:
    """Of the code that times."""
    return key_of((Path(__file__).parent / "inside" / "baselines.py").read_bytes())
