"""Several referees of one machine, of one GPU or more: a job goes to the GPU that has least to do, to the idlest of
its referees, and to none that is ill.

Who waits for which referee is told by files that are locked as long as someone waits, so that all processes of a
machine know it and the lock of one that dies is gone with it. A GPU that did not pass its check, or whose referee
cannot be started, gets nothing for a while if others are well: what came for it goes on to them, unless it had begun.
"""

import contextlib
import fcntl
import json
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Literal, TypeVar

from common.file_replacement import replace_file
from evaluator.backends.gpu.runner.channel import Channel, ChannelClosedError, socket_address
from evaluator.cancellation import CancelToken
from evaluator.file_lock import lock_unless_held
from evaluator.pipeline.gpu.client import GpuReferee, GpuUnfitError, StartFailure
from evaluator.pipeline.progress import ProgressCallback
from evaluator.pipeline.referee import HostRequest, HostResult, JudgeRequest, JudgeResult

_Result = TypeVar("_Result")
_ILL_S: Final = 30.0
"""How long a GPU that failed its check is left alone where others are well: as long as a referee's longest pause."""
_RELEASE_S: Final = 1.0
"""A socket takes a connection and an order at once, unless a thousand graders wait at it."""


class GpuReferees:
    """Several referees, of one GPU or of several that are alike. Safe to use from several threads and processes.

    Bound to one piece of work it remembers which GPU had it.
    """

    name: Literal["gpu", "sim"] = "gpu"

    def __init__(self, referees: Sequence[GpuReferee], folder: Path) -> None:
        """`referees`: two at least. `folder`: where all processes of this machine tell each other what they do."""
        self._referees = tuple(referees)
        self._folder = folder
        self._chosen: GpuReferee | None = None

    def bound_to(self, cancel_token: CancelToken) -> "GpuReferees":
        """The same referees, for one piece of work."""
        return GpuReferees([referee.bound_to(cancel_token) for referee in self._referees], self._folder)

    @property
    def count(self) -> int:
        """Referees."""
        return len(self._referees)

    @property
    def device(self) -> str:
        """The GPU that judged, once there is one; before, all of them."""
        if self._chosen is not None:
            return self._chosen.device
        devices = list(dict.fromkeys(referee.device for referee in self._referees))
        return devices[0] if len(devices) == 1 else f"{len(devices)} GPUs: {'; '.join(devices)}"

    @property
    def arch(self) -> str:
        return self._referees[0].arch

    @property
    def log(self) -> Path:
        """Of the referee that cannot be started, else of the first."""
        return next((one.log for one in self._referees if one.trouble), self._referees[0].log)

    @property
    def trouble(self) -> StartFailure | None:
        """Why none of them could be started the last time; None where one could."""
        return _common([referee.trouble for referee in self._referees])

    def start(self) -> StartFailure | None:
        """Start all that do not run, at the same time; why none can be started, or None where one can."""
        with ThreadPoolExecutor(len(self._referees)) as pool:
            return _common(list(pool.map(lambda referee: referee.start(), self._referees)))

    def judge(self, request: JudgeRequest, progress: ProgressCallback) -> JudgeResult:
        return self._by_one(lambda referee: referee.judge(request, progress))

    def judge_host(self, request: HostRequest, progress: ProgressCallback) -> HostResult:
        return self._by_one(lambda referee: referee.judge_host(request, progress))

    def _by_one(self, judged: Callable[[GpuReferee], _Result]) -> _Result:
        """What one of them finds. Raises as they do."""
        left_out: set[str] = set()
        while True:
            with self._placed(left_out) as referee:
                self._chosen = referee
                try:
                    return judged(referee)
                except GpuUnfitError:
                    self._call_ill(referee)
                    left_out.add(referee.key)
                    if len(left_out) == len(self._referees):
                        raise

    @contextlib.contextmanager
    def _placed(self, left_out: Collection[str]) -> Iterator[GpuReferee]:
        """The referee that has least to do, of those that are well; it has one more to do while the block runs."""
        with contextlib.ExitStack() as stack:
            with self._one_at_a_time():
                able = [one for one in self._referees if one.key not in left_out]
                well = [one for one in able if one.trouble is None and not self._is_ill(one)] or able
                load = {one.key: waiting(self._jobs(one)) for one in self._referees}
                of_gpu: Counter[str] = Counter()
                for one in self._referees:
                    of_gpu[one.uuid] += load[one.key]
                chosen = min(well, key=lambda one: (of_gpu[one.uuid], load[one.key]))
                stack.enter_context(_counted(self._jobs(chosen)))
            yield chosen

    def _jobs(self, referee: GpuReferee) -> Path:
        return self._folder / f"{referee.key}.jobs"

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """So that two who come together do not both take the same for the idlest."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = open(self._folder / "placing.lock", "w")  # noqa: SIM115
        except OSError:  # a full disk: then they may
            yield
            return
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _illness(self, referee: GpuReferee) -> Path:
        return self._folder / f"{referee.key}.ill"

    def _call_ill(self, referee: GpuReferee) -> None:
        with contextlib.suppress(OSError):
            replace_file(self._illness(referee), json.dumps(time.monotonic()))

    def _is_ill(self, referee: GpuReferee) -> bool:
        with contextlib.suppress(OSError, ValueError, TypeError):
            # A file of an earlier start of the machine speaks of another clock.
            return 0 <= time.monotonic() - float(json.loads(self._illness(referee).read_text())) < _ILL_S
        return False


def release_referees(data_dir: Path) -> None:
    """Tell all referees that were started with this data folder that they are not needed any more: one ends in some
    seconds, after the job that it has, unless another process comes to it.
    """
    for path in (data_dir / "referees").glob("*.sock"):
        with (
            contextlib.suppress(OSError, ChannelClosedError),
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection,
        ):
            connection.settimeout(_RELEASE_S)
            with socket_address(path) as address:
                connection.connect(address)
            Channel(connection).send({"order": "release"})


def _common(troubles: Sequence[StartFailure | None]) -> StartFailure | None:
    found = [trouble for trouble in troubles if trouble is not None]
    # What is due first is what the next start may be tried for.
    return min(found, key=lambda one: one.due_s) if len(found) == len(troubles) else None


def waiting(folder: Path) -> int:
    """How many files in `folder` someone has locked; those of processes that have ended are removed."""
    count = 0
    for file in folder.glob("*") if folder.is_dir() else ():
        with contextlib.suppress(OSError), file.open("rb") as held:
            if lock_unless_held(held, shared=True):
                file.unlink()
            else:
                count += 1
    return count


@contextlib.contextmanager
def _counted(folder: Path) -> Iterator[None]:
    """One more in `waiting`, while the block runs; where no file can be made, it is not counted."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / secrets.token_hex(8)
        held = file.open("xb")
    except OSError:
        yield
        return
    with held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                file.unlink()
