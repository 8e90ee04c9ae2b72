"""A grader that lets go of its GPU's referee in the middle of a job."""

import os
import socket
import threading
import time

import pytest
from stand_in import program, relu_plan

from common.contract import Settings
from evaluator.backends.gpu.device.health import Gpu
from evaluator.cancellation import CancelledError, CancelToken
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.referee import JudgeRequest
from evaluator.settings import MachineSettings

GPU = Gpu(0, "GPU-0", "stand-in", "sm_90", 1 << 33, 1 << 33, "1.0", (13, 0), None, "default", None)
PROGRAM = program("relu")
REQUEST = JudgeRequest(PROGRAM, relu_plan(PROGRAM), Settings(), local_memory=False, secret=os.urandom(32))


@pytest.fixture
def referee(tmp_path):
    """A referee that is busy for ever, and the connections that it took."""
    made = GpuReferee(GPU, MachineSettings(tmp_path))
    made._socket.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made._socket))
        listener.listen()
        made.listener = listener
        yield made


def test_a_withdrawal_lets_go_at_once_and_the_referee_sees_it(referee):
    cancel_token = CancelToken()
    caught = []

    def judge():
        try:
            referee.bound_to(cancel_token).judge(REQUEST, lambda text: None)
        except CancelledError as error:
            caught.append(error)

    thread = threading.Thread(target=judge)
    thread.start()
    connection, _ = referee.listener.accept()
    with connection:
        assert connection.recv(1 << 16)
        time.sleep(0.1)
        started_s = time.monotonic()
        cancel_token.cancel()
        thread.join(5)
        assert caught
        assert time.monotonic() - started_s < 1
        connection.settimeout(5)
        while connection.recv(1 << 16):
            pass


def test_nobody_is_asked_once_the_interest_is_gone(referee):
    cancel_token = CancelToken()
    cancel_token.cancel()
    with pytest.raises(CancelledError):
        referee.bound_to(cancel_token).judge(REQUEST, lambda text: None)
