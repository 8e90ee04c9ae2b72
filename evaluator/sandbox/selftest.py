"""Which sandbox works on this machine, and the proof of what it keeps from a job: by trying to break each promise."""

import contextlib
import functools
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

from evaluator.errors import JobKilledError, SandboxError, UsageError
from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.sandbox.retry import run_in_tries
from evaluator.sandbox.sandbox import Isolation, Job, JobResult, Limits, Sandbox

if TYPE_CHECKING:
    from evaluator.sandbox.container.docker import DockerSandbox


@dataclass(frozen=True)
class Layer:
    """One layer of isolation, as found."""

    name: str
    promised: bool
    holds: bool
    detail: str
    """What the attempt to break it brought."""


def choose(root: Path, wanted: Literal["auto", "docker", "bubblewrap", "process"] = "auto") -> Sandbox:
    """The best sandbox that works here, with its work folders under `root`.

    `auto` takes bubblewrap where a real trial of it succeeds (tried once in each process), else the plain process
    sandbox; docker is taken only when it is named. Raises SandboxError, with the reason and the remedy, when the one
    that is wanted does not work.
    """
    if wanted not in ("auto", "docker", "bubblewrap", "process"):
        raise UsageError(f"There is no sandbox {wanted!r} here.", "Choose auto, docker, bubblewrap or process.")
    if wanted == "docker":
        return _docker(root)
    if wanted == "process":
        return ProcessSandbox(root)
    fault = _bubblewrap_fault(root)
    if fault is None:
        return BubblewrapSandbox(root)
    if wanted == "bubblewrap":
        raise SandboxError(str(fault), fault.remedy)
    return ProcessSandbox(root)


_TRIAL: Final = Job(("/bin/sh", "-c", "exit 7"), limits=Limits(wall_s=10))


@functools.cache
def _docker(root: Path) -> Sandbox:
    # One for each process: it keeps containers ready.
    # Only a service needs Docker's library, and every grading would wait for its import.
    from evaluator.sandbox.container.docker import DockerSandbox

    sandbox = DockerSandbox(root)
    finished = run_in_tries(sandbox, _TRIAL)
    if finished.exit_code != 7:
        raise SandboxError(f"A trial of docker ended with {_ending(finished)} instead of exit code 7.")
    return sandbox


@functools.cache
def _bubblewrap_fault(root: Path) -> SandboxError | None:
    try:
        finished = run_in_tries(BubblewrapSandbox(root), _TRIAL)
    except JobKilledError:
        raise  # that says nothing about bubblewrap: nobody may get a weaker sandbox for it
    except SandboxError as fault:
        return fault
    if finished.exit_code != 7:
        return SandboxError(f"A trial of bubblewrap ended with {_ending(finished)} instead of exit code 7.")
    return None


def probe_sandbox(sandbox: Sandbox) -> tuple[Layer, ...]:
    """Try to break every layer of this sandbox with a real job; takes a few seconds."""
    layers = []
    for layer, attempt in _ATTEMPTS.items():
        holds, detail = attempt(sandbox)
        layers.append(Layer(layer.value, layer in sandbox.promises, holds, detail))
    return tuple(layers)


# An attempt counts as held off only when the job says so itself or was ended for it: a job that could not run at all
# proves nothing.
Outcome = tuple[bool, str]


def _shell(sandbox: Sandbox, script: str, *arguments: str, limits: Limits | None = None) -> JobResult:
    return sandbox.run(Job(("/bin/sh", "-c", script, "sh", *arguments), limits=limits or Limits(wall_s=10)))


def _python(sandbox: Sandbox, script: str, *arguments: str, limits: Limits | None = None) -> JobResult:
    command = ("-I", "-S", "-c", script, *arguments)
    if sandbox.name == "docker":
        interpreter = cast("DockerSandbox", sandbox).interpreter
        return sandbox.run(Job((interpreter, *command), limits=limits or Limits(wall_s=10)))
    argv = (sys.executable, *command)
    readable = tuple({Path(sys.prefix), Path(sys.base_prefix)})
    return sandbox.run(Job(argv, readable=readable, limits=limits or Limits(wall_s=10)))


def _said(finished: JobResult, good: str) -> Outcome:
    text = finished.stdout.decode(errors="replace").strip()
    return text == good, text or f"no answer: {_ending(finished)} {finished.stderr.decode(errors='replace').strip()}"


def _ending(finished: JobResult) -> str:
    if finished.limit_hit:
        return f"ended: it {finished.limit_hit}"
    return f"exit code {finished.exit_code}" if finished.signal is None else f"signal {finished.signal}"


_CONNECT = """
import socket, sys
reached = []
for family, address in ((socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))), (socket.AF_UNIX, "\\0" + sys.argv[2])):
    try:
        with socket.socket(family) as s:
            s.settimeout(2)
            s.connect(address)
            reached.append(family.name)
    except OSError:
        pass
print("reached the host by", *reached) if reached else print("unreachable")
"""


def _network(sandbox: Sandbox) -> Outcome:
    name = secrets.token_hex(8)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        port = listener.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=2).close()  # else "unreachable" would prove nothing
        return _said(_python(sandbox, _CONNECT, str(port), name), "unreachable")


@contextlib.contextmanager
def _host_folders() -> Iterator[list[Path]]:
    with contextlib.ExitStack() as stack:
        folders = []
        for place in (Path(tempfile.gettempdir()), Path.home()):
            if os.access(place, os.W_OK):
                folders.append(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="canary-", dir=place))))
        yield folders


def _host_files(sandbox: Sandbox) -> Outcome:
    with _host_folders() as folders:
        canaries = [folder / "canary" for folder in folders]
        for canary in canaries:
            canary.write_text("seen")
        script = 'for f in "$@"; do head -c 1 "$f" >/dev/null 2>&1 && echo "read $f"; done; echo end'
        # An image brings files of these names that are not the host's.
        others = () if sandbox.name == "docker" else ("/etc/passwd", "/etc/hostname")
        return _said(_shell(sandbox, script, *map(str, canaries), *others), "end")


def _write_outside(sandbox: Sandbox) -> Outcome:
    with _host_folders() as folders:
        # In the system's own folders what succeeds is taken back; the setting is opened, and nothing written into it.
        script = """
            name=$1; shift
            for d in "$@"; do (: > "$d/written") 2>/dev/null && echo "wrote in $d"; done
            for d in / /usr /etc; do (: > "$d/$name") 2>/dev/null && rm "$d/$name" && echo "may write $d"; done
            f=/proc/sys/kernel/core_pattern; (: >> $f) 2>/dev/null && echo "may write $f"
            echo end"""
        held, detail = _said(_shell(sandbox, script, f"assay-{secrets.token_hex(8)}", *map(str, folders)), "end")
        written = [folder for folder in folders if (folder / "written").exists()]
    return held and not written, detail


def _other_processes(sandbox: Sandbox) -> Outcome:
    left, right = secrets.token_hex(8), secrets.token_hex(8)
    with subprocess.Popen(["/bin/sh", "-c", "read x", f"{left}x{right}"], stdin=subprocess.PIPE) as bystander:
        # The job looks for a pattern, which does not match its own command line.
        script = """
            cd /proc; for p in [0-9]*; do
                grep -qs "$1[a-z]$2" $p/cmdline && echo "sees process $p"
            done; echo end"""
        try:
            return _said(_shell(sandbox, script, left, right), "end")
        finally:
            assert bystander.stdin is not None
            bystander.stdin.close()


def _identity(sandbox: Sandbox) -> Outcome:
    finished = _shell(sandbox, 'echo "$(id -u) $(id -g)"')
    text = finished.stdout.decode().strip()
    strange = text not in ("", f"{os.getuid()} {os.getgid()}") and not text.startswith("0 ")
    return strange, f"runs as user and group {text}" if text else f"no answer: {_ending(finished)}"


def _capabilities(sandbox: Sandbox) -> Outcome:
    finished = _shell(sandbox, "exec grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status")
    found = dict(line.split(":") for line in finished.stdout.decode().splitlines())
    locked = found.pop("NoNewPrivs", "0").strip() == "1"
    held = len(found) == 4 and not any(int(value, 16) for value in found.values()) and locked
    return held, "none, and no new privileges" if held else f"{found}, no new privileges: {locked}"


_CALL = """
import ctypes, errno, platform, sys
library = ctypes.CDLL(None, use_errno=True)
column = 0 if platform.machine() == "x86_64" else 1
reached = []
for name, *numbers in (
    ("ptrace", 101, 117), ("mount", 165, 40), ("setns", 308, 268), ("keyctl", 250, 219), ("bpf", 321, 280),
    ("perf_event_open", 298, 241), ("io_uring_setup", 425, 425), ("userfaultfd", 323, 282), ("init_module", 175, 105),
):
    # All arguments are senseless: a call that gets as far as looking at them would not be refused for what it is.
    result = library.syscall(numbers[column], *[ctypes.c_long(-1)] * 6)
    if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        reached.append(name)
print("reached", *reached) if reached else print("refused")
"""


def _kernel_calls(sandbox: Sandbox) -> Outcome:
    return _said(_python(sandbox, _CALL), "refused")


def _environment(sandbox: Sandbox) -> Outcome:
    finished = _shell(sandbox, "env -0")
    names = {entry.partition("=")[0] for entry in finished.stdout.decode(errors="replace").split("\0") if entry}
    leaked = sorted(names - {"PATH", "HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"})
    held = "PATH" in names and not leaked
    return held, f"leaked {', '.join(leaked)}" if leaked else f"{len(names)} variables, all ours"


def _running(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


_STUBBORN = """
trap '' TERM INT HUP
(setsid /bin/sh -c "trap '' TERM INT HUP; while :; do sleep 0.05; done" "$1" &)
while :; do sleep 0.05; done
"""


def _wall_time(sandbox: Sandbox) -> Outcome:
    mark = secrets.token_hex(8)
    finished = _shell(sandbox, _STUBBORN, mark, limits=Limits(wall_s=0.5))
    left = _running(mark)
    # On a busy machine it has stood in line for a processor, which is no time that it was allowed.
    took_s = finished.wall_s - finished.waited_s
    held = finished.timed_out and took_s < 5 and not left
    in_line = f" and {finished.waited_s:.1f} s in line for a processor" if finished.waited_s > 1 else ""
    return held, f"0.5 s allowed, ended after {took_s:.2f} s{in_line}, {len(left)} processes left"


def _process_limit(sandbox: Sandbox) -> Outcome:
    script = "i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done; wait; echo all"
    finished = _shell(sandbox, script, limits=Limits(wall_s=10, processes=16))
    # Either the watch ended it, or (for an ordinary user) the kernel already refused to fork.
    refused = b"fork" in finished.stderr and not finished.succeeded
    ended = finished.limit_hit is not None and not finished.timed_out
    held = (ended or refused) and b"all" not in finished.stdout
    return held, "the kernel refused to fork" if refused else _ending(finished)


_SHARE_MEMORY = """
import os, time
try:
    bytearray(400 << 20)
    print("one process took 400 MiB", flush=True)
except MemoryError:
    pass
for _ in range(4):
    if os.fork() == 0:
        block = bytearray(os.urandom(1 << 20) * 100)
        time.sleep(5)
        os._exit(0)
for _ in range(4):
    os.wait()
print("four processes took 400 MiB")
"""


def _memory_limit(sandbox: Sandbox) -> Outcome:
    finished = _python(sandbox, _SHARE_MEMORY, limits=Limits(wall_s=10, memory_bytes=256 << 20))
    text = finished.stdout.decode().strip()
    return finished.memory_exceeded and not text, text or _ending(finished)


def _output_limit(sandbox: Sandbox) -> Outcome:
    finished = _shell(sandbox, "yes", limits=Limits(wall_s=10, output_bytes=1 << 20))
    return finished.output_exceeded and len(finished.stdout) <= 1 << 20, _ending(finished)


def _work_limit(sandbox: Sandbox) -> Outcome:
    limits = Limits(wall_s=20, file_bytes=1 << 20, work_bytes=8 << 20)
    one = _shell(sandbox, "head -c 2000000 /dev/zero > one; stat -c %s one", limits=limits)
    script = "i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); done"
    many = _shell(sandbox, script, limits=limits)
    size_text = one.stdout.decode().strip()
    held = size_text == str(1 << 20) and many.output_exceeded and not many.timed_out
    return held, f"one file: {size_text} bytes; many files: {_ending(many)}"


_DAEMON = """
echo "$1" > "$1"
(env -i setsid /bin/sh -c "sleep 30" "$1" > /dev/null 2>&1 < /dev/null &)
exit 0
"""


def _no_leftovers(sandbox: Sandbox) -> Outcome:
    mark = secrets.token_hex(8)
    finished = _shell(sandbox, _DAEMON, mark)
    left: list[object] = list(_running(mark))
    root = getattr(sandbox, "root", None)
    if isinstance(root, Path):
        left += root.rglob(mark)
    return finished.exit_code == 0 and not left, f"left: {left}" if left else f"nothing left; {_ending(finished)}"


_ATTEMPTS: dict[Isolation, Callable[[Sandbox], Outcome]] = {
    Isolation.NETWORK: _network,
    Isolation.HOST_FILES: _host_files,
    Isolation.WRITE_OUTSIDE: _write_outside,
    Isolation.OTHER_PROCESSES: _other_processes,
    Isolation.IDENTITY: _identity,
    Isolation.CAPABILITIES: _capabilities,
    Isolation.KERNEL_CALLS: _kernel_calls,
    Isolation.ENVIRONMENT: _environment,
    Isolation.WALL_TIME: _wall_time,
    Isolation.PROCESS_LIMIT: _process_limit,
    Isolation.MEMORY_LIMIT: _memory_limit,
    Isolation.OUTPUT_LIMIT: _output_limit,
    Isolation.WORK_LIMIT: _work_limit,
    Isolation.NO_LEFTOVERS: _no_leftovers,
}
