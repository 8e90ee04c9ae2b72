"""The zygote: a process that has imported all that a runner needs, and forks runners that are ready in no time.

It never touches CUDA itself, because a context does not survive a fork. One thread, one channel:

    fork {}      -> forked {pid} + descriptor of the new runner's channel
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
from collections.abc import Callable

from evaluator.backends.gpu.runner.channel import Channel, ChannelClosedError
from evaluator.backends.gpu.runner.runner import Device, converse


def fork_runners(channel: Channel, make_device: Callable[[], Device]) -> None:
    """Fork runners until the referee is gone; then end them all."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    runners: set[int] = set()
    gc.freeze()  # so that no collection in a runner touches, and copies, the pages that it shares
    channel.send({"serving": os.getpid()})
    try:
        while True:
            ready, _, _ = select.select([channel.fileno(), reading], [], [])
            if reading in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(reading, 4096)
            for pid, code in _ended():
                runners.discard(pid)
                channel.send({"ended": pid, "code": code})
            if channel.fileno() not in ready:
                continue
            order = channel.receive()
            if order["order"] == "fork":
                runners.add(_fork(channel, make_device, (reading, writing)))
            elif order["order"] == "kill" and order["pid"] in runners:
                os.kill(order["pid"], signal.SIGKILL)
    except ChannelClosedError:
        pass
    finally:
        for pid in runners:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _fork(channel: Channel, make_device: Callable[[], Device], pipe: tuple[int, int]) -> int:
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
            with contextlib.suppress(ChannelClosedError):
                converse(Channel(theirs), make_device)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    channel.send({"forked": pid}, [ours.fileno()])
    ours.close()
    return pid


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
