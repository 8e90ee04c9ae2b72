"""What is attacked: every kind of sandbox that works here, and a machine with something to find on it.

An attack is a file in `inside/`. Its header says what it tries and how it must end:

# attack: what it tries
# layer: the layer of isolation that has to hold it off (evaluator.sandbox.sandbox.Isolation)
# ends: how the job may end, if not by itself: refused (an error of Python's), signal, or the limit that ends it
# limits: limits of the job, to keep it small
# collects: files that the job is to leave
# open in: kinds of sandbox in which it is known to succeed; a test sees to it that it does
# not in: kinds of sandbox in which it is not tried, and why
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluator.errors import SandboxError
from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.sandbox.host.process_tree import descendants
from evaluator.sandbox.sandbox import Isolation, Job, JobResult, Limits, Sandbox

INSIDE = Path(__file__).parent / "inside"
KIT = INSIDE / "kit.py"
PYTHON = tuple({Path(sys.prefix), Path(sys.base_prefix)})
_ENDINGS = {
    "ran longer": "wall",
    "of CPU time": "cpu",
    "of memory": "memory",
    "processes and threads": "processes",
    "of output": "output",
    "a file larger": "file",
    "bytes or": "work",
}


# ---- kinds ----


def _docker(root: Path) -> Sandbox:
    from evaluator.sandbox.container.docker import DockerSandbox

    return DockerSandbox(root)


def _process_bare(root: Path) -> Sandbox:
    return ProcessSandbox(root, use_seccomp=False, use_landlock=False)


KINDS: dict[str, Callable[[Path], Sandbox]] = {
    "docker": _docker,
    "bubblewrap": BubblewrapSandbox,
    "process": ProcessSandbox,
    "process-bare": _process_bare,
}
"""`process-bare` is the process sandbox on a kernel without seccomp and Landlock."""


def make_sandbox(kind: str, root: Path) -> Sandbox | str:
    """A sandbox that works, or why there is none of this kind here."""
    try:
        sandbox = KINDS[kind](root)
        finished = sandbox.run(Job(("/bin/sh", "-c", "exit 7"), limits=Limits(wall_s=30)))
    except (ImportError, SandboxError) as error:
        return f"{kind} does not work here: {error}"
    if kind == "process" and Isolation.OTHER_PROCESSES not in sandbox.promises:
        return "this kernel lacks what the process sandbox uses (seccomp, and Landlock of version 6)"
    return sandbox if finished.exit_code == 7 else f"{kind} does not run a shell: {finished}"


# ---- attacks ----


@dataclass(frozen=True)
class Attack:
    """One attack, as its header declares it."""

    name: str
    tries: str
    layer: Isolation
    ends: frozenset[str]
    limits: Limits
    collects: tuple[str, ...]
    open_in: frozenset[str]
    not_in: frozenset[str]
    text: str = field(repr=False)


def read_attack(path: Path) -> Attack:
    """The attack in a file; raises ValueError or KeyError for a header that says too little."""
    text = path.read_text(encoding="utf-8")
    head = dict(re.findall(r"^# ([a-z ]+): (.*)$", text, re.MULTILINE))
    limits: dict[str, Any] = {"wall_s": 10.0, "memory_bytes": 1 << 30}
    for word in head.get("limits", "").split():
        name, _, number = word.partition("=")
        limits[name] = float(number) if name.endswith("_s") else int(number)
    return Attack(
        path.stem,
        head["attack"],
        Isolation(head["layer"]),
        frozenset(head.get("ends", "itself").split(", ")),
        Limits(**limits),
        tuple(head.get("collects", "").split()),
        frozenset(head.get("open in", "").split()),
        frozenset(kind for kind in KINDS if re.match(rf"{kind}\b(?!-)", head.get("not in", ""))),
        text,
    )


ATTACKS = tuple(read_attack(path) for path in sorted(INSIDE.glob("*.py")) if path != KIT)


def ending(finished: JobResult) -> str:
    """How a job ended, in the words of the headers."""
    if finished.limit_hit:
        return next(word for part, word in _ENDINGS.items() if part in finished.limit_hit)
    if finished.signal is not None:
        return "memory" if finished.memory_exceeded else "signal"
    if finished.exit_code == 0 and b"END" in finished.stdout:
        return "itself"
    return "refused" if finished.exit_code == 1 else f"exit code {finished.exit_code}"


# ---- the machine ----

_BYSTANDER = """
import ctypes, platform, signal, time
# As most services: without capabilities, which would keep it from prying eyes of its own user.
number = 126 if platform.machine() == "x86_64" else 91
assert ctypes.CDLL(None).syscall(number, b"\\x22\\x05\\x08\\x20" + bytes(4), bytes(24)) == 0
signal.signal(signal.SIGURG, lambda *_: print("signalled", flush=True))
print("ready", flush=True)
while True:
    time.sleep(60)
"""


class Host:
    """A machine with a server, a data folder, secrets, a bystander and another job; close it at the end."""

    def __init__(self, kind: str, sandbox: Sandbox, folder: Path) -> None:
        self.kind, self.sandbox = kind, sandbox
        self.token, self.mark = secrets.token_hex(12), f"mark-{secrets.token_hex(6)}"
        self._open = contextlib.ExitStack()
        try:
            self._set_up(folder)
        except BaseException:
            self._open.close()
            raise

    def _set_up(self, folder: Path) -> None:
        self.data = folder / "data"
        self.cache = self.data / "cache"
        self.cache.mkdir(parents=True)
        self.home = Path(self._open.enter_context(_canary_folder(Path.home())))
        self.temporary = Path(self._open.enter_context(_canary_folder(Path("/tmp"))))
        self.files = {
            self.data / ".env": f"ASSAY_SECRET={self.token}",
            self.data / "signing-key": self.token,
            self.data / "assay.db": f"SQLite format 3 {self.token}",
            self.cache / "entry": f"a compiled program {self.token}",
            self.home / "canary": self.token,
            self.temporary / "canary": self.token,
        }
        self.restore()
        self._serve(folder)
        self._secret_fd = os.open(self.data / ".env", os.O_RDONLY)
        self._open.callback(os.close, self._secret_fd)
        self.bystander = self._open.enter_context(
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BYSTANDER, self.mark, "bystander"],
                stdout=subprocess.PIPE,
                env={"ASSAY_TOKEN": self.token},
                pass_fds=[self._secret_fd],
            )
        )
        self._open.callback(self.bystander.kill)
        assert self.bystander.stdout is not None
        assert self.bystander.stdout.readline() == b"ready\n"
        other = Job(
            ("/bin/sh", "-c", "cat input > output; echo ready; read end; cat input output > both"),
            files={"input": self.token.encode()},
            collect=("input", "output", "both"),
            limits=Limits(wall_s=600),
        )
        self.other_job = self.sandbox.start(other)
        assert self.other_job.receive(6) == b"ready\n"
        self._resting = self._rest()

    def _serve(self, folder: Path) -> None:
        def bound(family: int, kind: int, address: Any) -> socket.socket:
            server = self._open.enter_context(socket.socket(family, kind))
            server.bind(address)
            if kind == socket.SOCK_STREAM:
                server.listen(64)
            return server

        self.tcp = bound(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.udp = bound(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.stream, self.datagram = str(folder / "stream"), str(folder / "datagram")
        bound(socket.AF_UNIX, socket.SOCK_STREAM, self.stream)
        bound(socket.AF_UNIX, socket.SOCK_DGRAM, self.datagram)
        bound(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.mark)

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    query, asker = self.udp.recvfrom(512)
                    self.udp.sendto(query[::-1], asker)

        threading.Thread(target=answer, daemon=True).start()

    def restore(self) -> None:
        """Put everything back that an attack may have changed."""
        self.cache.mkdir(exist_ok=True)
        for path, text in self.files.items():
            path.unlink(missing_ok=True)
            path.write_text(text)
            path.chmod(0o600)
        for path in self.cache.iterdir():
            if path not in self.files:
                path.unlink()
        self.cache.chmod(0o750)
        self.state = self._state()

    def _state(self) -> dict[str, object]:
        places = [*self.files, *self.cache.iterdir(), self.cache, self.data]
        looked = {str(path): path.stat() for path in places}
        state: dict[str, object] = {
            path: (found.st_mode, found.st_uid, found.st_mtime_ns) for path, found in looked.items()
        }
        return state | {f"content of {path}": path.read_text() for path in self.files}

    def _rest(self) -> set[int]:
        return set(descendants(os.getpid()))

    def facts(self, run: str) -> dict[str, object]:
        """What an attack is told, so that it need not search."""
        system = [Path(name) for name in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/machine-id")]
        return {
            "kind": self.kind,
            "run": run,
            "mark": self.mark,
            "token": self.token,
            "tcp_port": self.tcp.getsockname()[1],
            "udp_port": self.udp.getsockname()[1],
            "abstract": self.mark,
            "stream_socket": self.stream,
            "datagram_socket": self.datagram,
            "secrets": [str(path) for path in self.files],
            "system_files": {
                str(path): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in system
                if os.access(path, os.R_OK) and path.stat().st_size
            },
            "data": str(self.data),
            "cache": str(self.cache),
            "database": str(self.data / "assay.db"),
            "folders": [str(self.home), str(self.temporary), str(self.data)],
            "canary": "canary",
            "jobs": str(self.sandbox.root),
            "other_job": str(getattr(self.other_job, "folder", self.sandbox.root / "other")),
            "bystander": self.bystander.pid,
            "grader": os.getpid(),
            "open_secret": self._secret_fd,
        }

    def suffer(self, attack: Attack) -> JobResult:
        """Run an attack; what it did to the machine shows in `harm`."""
        self.restore()
        self._run = secrets.token_hex(8)
        start = "import sys; sys.path.insert(0, ''); import attack; print('END', flush=True)"
        docker = getattr(self.sandbox, "interpreter", None)
        job = Job(
            (docker or sys.executable, "-I", "-S", "-B", "-c", start, json.dumps(self.facts(self._run))),
            files={"attack.py": attack.text.encode(), "kit.py": KIT.read_bytes()},
            collect=attack.collects,
            readable=() if docker else PYTHON,
            limits=attack.limits,
        )
        return self.sandbox.run(job)

    def harm(self) -> list[str]:
        """What is not as it was before the last attack, some patience given; nothing is as it should be."""
        until_s = time.monotonic() + 3
        while (found := self._harm()) and time.monotonic() < until_s:
            time.sleep(0.02)
        return found

    def _harm(self) -> list[str]:
        found = [f"{name} changed" for name, was in self.state.items() if self._state().get(name) != was]
        assert self.bystander.stdout is not None
        if self.bystander.poll() is not None:
            found.append("the bystander ended")
        elif select.select([self.bystander.stdout], [], [], 0)[0]:
            found.append(f"the bystander was {os.read(self.bystander.stdout.fileno(), 100).decode().strip()}")
        found += [f"process {pid} is left" for pid in self._rest() - self._resting]
        found += [f"process {pid} of the job is left" for pid in _running(self._run)]
        own = getattr(self.other_job, "folder", None)
        found += [f"{path} is left" for path in self.sandbox.root.iterdir() if path != own]
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        return [*found, "a mount is left"] if str(self.sandbox.root) in mounts else found

    def next_job_is_right(self) -> bool:
        """Whether an honest job after the attack gets its own files, and its own result."""
        text = secrets.token_hex(16).encode()
        script = "tr 0-9a-f f0-9a-e < in > out; ls -A; echo done"
        finished = self.sandbox.run(Job(("/bin/sh", "-c", script), files={"in": text}, collect=("out",)))
        expected = text.translate(bytes.maketrans(b"0123456789abcdef", b"f0123456789abcde"))
        return finished.succeeded and finished.stdout == b"in\nout\ndone\n" and finished.files == {"out": expected}

    def close(self) -> dict[str, bytes]:
        """End everything; returns what the other job, which ran all the time, had in its folder."""
        try:
            self.other_job.send(b"end\n")
            return dict(self.other_job.finish().files)
        finally:
            self._open.close()


@contextlib.contextmanager
def _canary_folder(place: Path) -> Iterator[str]:
    folder = place / f"canary-{secrets.token_hex(6)}"
    folder.mkdir()
    try:
        yield str(folder)
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _running(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
