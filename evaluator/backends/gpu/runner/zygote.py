"""The zygote: a process that has imported all that a runner needs, and forks runners that are ready in no time.

It never touches CUDA itself, because a context does not survive a fork. One thread, one channel:

    fork {lock} + descriptor of the contexts' file, where `lock`
                 -> forked {pid} + descriptor of the new runner's channel
    kill {pid}   -> (nothing)
    (a runner's end)  -> ended {pid, code}
"""

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable

from evaluator.backends.gpu.runner.channel import Channel, ChannelClosedError
from evaluator.backends.gpu.runner.context_lock import ContextLock
from evaluator.backends.gpu.runner.runner import MakeDevice, converse


def fork_runners(channel: Channel, make_device: MakeDevice) -> None:
    """Fork runners until the referee is gone; then end them all."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    runners: dict[int, ContextLock] = {}
    gc.freeze()  # so that no collection in a runner touches, and copies, the pages that it shares
    channel.send({"serving": os.getpid()})
    try:
        while True:
            ready, _, _ = select.select([channel.fileno(), reading], [], [], 0.0 if channel.has_more else None)
            if reading in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(reading, 4096)
            for pid, code in _ended():
                _let_go(runners.pop(pid, None))
                channel.send({"ended": pid, "code": code})
            if channel.fileno() not in ready and not channel.has_more:
                continue
            order = channel.receive()
            if order["order"] == "fork":
                lock = ContextLock(channel.take_descriptor() if order.get("lock") else None)
                runners[_fork(channel, make_device, (reading, writing), lock, runners.values())] = lock
            elif order["order"] == "kill" and order["pid"] in runners:
                # Its context ends now, also where somebody times: that may be the very job that it fails.
                runners[order["pid"]].enter(0.0)
                os.kill(order["pid"], signal.SIGKILL)
    except ChannelClosedError:
        pass
    finally:
        for pid in runners:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _fork(
    channel: Channel,
    make_device: MakeDevice,
    pipe: tuple[int, int],
    lock: ContextLock,
    others: Iterable[ContextLock],
) -> int:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in pipe:
                os.close(descriptor)
            channel.close()
            ours.close()
            for other in others:
                other.close()
            with contextlib.suppress(ChannelClosedError):
                converse(Channel(theirs), make_device, lock)
            lock.enter()  # the driver ends the context when the process ends, and the zygote lets go then
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    channel.send({"forked": pid}, [ours.fileno()])
    ours.close()
    return pid


def _let_go(lock: ContextLock | None) -> None:
    """After a runner's end, however it came: nothing of its context is left."""
    if lock is not None:
        lock.leave()
        lock.close()


def _ended() -> list[tuple[int, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            found.append((pid, os.waitstatus_to_exitcode(status)))
    return found


def main() -> None:
    """`python -m evaluator.backends.gpu.runner.zygote DESCRIPTOR MODULE:CLASS`: serve with this kind of device."""
    # Python's own handler would turn the signal into an exit code, as of a runner that failed by itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    module, _, name = sys.argv[2].partition(":")
    make_device = getattr(importlib.import_module(module), name)
    fork_runners(Channel(socket.socket(fileno=int(sys.argv[1]))), make_device)


if __name__ == "__main__":
    main()
