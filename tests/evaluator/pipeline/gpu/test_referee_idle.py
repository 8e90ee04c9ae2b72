"""When a referee that nobody needs ends: real sockets and orders, on a device that needs no GPU."""

import contextlib
import socket
import threading
import time

import pytest
from stand_in import StandInServices, serve_until_closed

from evaluator.backends.gpu.device.health import Gpu
from evaluator.pipeline.gpu import server
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.gpu.socket_file import listening_at
from evaluator.pipeline.toolbox import Toolbox
from evaluator.sandbox import selftest
from evaluator.settings import MachineSettings

GPU = Gpu(0, "GPU-0", "stand-in", "sm_90", 1 << 33, 1 << 33, "1.0", (13, 0), None, "default", None)


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    made = StandInServices(selftest.choose(tmp_path_factory.mktemp("work")))
    with contextlib.closing(made.runtime):
        yield made


@pytest.fixture
def started(tmp_path, services):
    """Starts a referee in a thread: itself, its client, and its socket's file."""
    with contextlib.ExitStack() as stack:

        def start(idle_s):
            made = GpuReferee(GPU, MachineSettings(tmp_path))
            made._socket.parent.mkdir(exist_ok=True)
            file = stack.enter_context(listening_at(made._socket))
            told = (file.listener, services, idle_s, file.is_there)
            thread = threading.Thread(target=serve_until_closed, args=told, daemon=True)
            thread.start()
            return thread, made, file

        yield start


def ends_within(thread, seconds):
    thread.join(seconds)
    return not thread.is_alive()


def test_a_referee_that_nobody_can_find_ends(started, monkeypatch):
    monkeypatch.setattr(server, "_LOOKS_EVERY_S", 0.05)
    thread, made, _ = started(None)
    assert made.facts()["pid"]
    assert not ends_within(thread, 0.3)
    made._socket.unlink()
    assert ends_within(thread, 5)


def test_a_referee_in_whose_place_another_one_listens_ends_and_leaves_its_socket(tmp_path, started, monkeypatch):
    monkeypatch.setattr(server, "_LOOKS_EVERY_S", 0.05)
    place = tmp_path / "referees" / "GPU-0.sock"
    place.parent.mkdir()
    with listening_at(place) as first:
        thread, made, second = started(None)
        assert not first.is_there()
        assert second.is_there()
    assert made.facts()["pid"]  # the end of the first took nothing from the second
    assert not ends_within(thread, 0.2)
    assert place.stat().st_mode & 0o777 == 0o600


def test_a_released_referee_ends_soon_unless_somebody_comes(tmp_path, started, monkeypatch):
    monkeypatch.setattr(server, "_RELEASED_S", 0.5)
    thread, made, _ = started(30.0)
    Toolbox(MachineSettings(tmp_path)).release_referees()
    assert made.facts()["pid"]
    assert not ends_within(thread, 1)  # it is needed again: thirty seconds from then
    Toolbox(MachineSettings(tmp_path)).release_referees()
    assert ends_within(thread, 5)


def test_a_referee_ends_when_nobody_has_come_for_a_while(started):
    began_s = time.monotonic()
    thread, _, _ = started(0.4)
    assert ends_within(thread, 5)
    assert time.monotonic() - began_s >= 0.4


def test_what_is_left_of_a_killed_referee_is_no_trouble_at_a_release(tmp_path):
    folder = tmp_path / "referees"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(folder / "GPU-0.sock"))
    (folder / "GPU-1.sock").write_text("no socket")
    Toolbox(MachineSettings(tmp_path)).release_referees()
    Toolbox(MachineSettings(tmp_path / "no such folder")).release_referees()
