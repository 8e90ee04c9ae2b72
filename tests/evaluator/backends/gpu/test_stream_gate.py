"""The gate that holds a stream: its kernel, its turns, and what it is for on a GPU."""

import struct
import subprocess
import time

import pytest

from evaluator.backends.gpu.runner import stream_gate
from evaluator.backends.gpu.runner.stream_gate import HEADER, HOLD, HOLD_BYTES, MOST_US, StreamGate
from evaluator.backends.gpu.tensors import TorchBaseline
from evaluator.problems.catalogue import find_problem
from evaluator.stages.compile.toolchain import find_toolchain


class Word:
    """Host memory that a device would read."""

    pointer = 0x7F0000001000

    def __init__(self):
        self.value = 0

    def set(self, value):
        self.value = value


@pytest.fixture
def clock(monkeypatch):
    """The host's clock, which stands still until a test moves it."""
    times = [1000.0]
    monkeypatch.setattr(stream_gate, "now_us", lambda: times[0])
    return times


def test_its_kernel_is_taken_by_the_assembler(tmp_path):
    text = tmp_path / "hold.ptx"
    text.write_bytes(HEADER + HOLD)
    ptxas = find_toolchain().nvcc.with_name("ptxas")
    subprocess.run([ptxas, "-arch=sm_90", "-o", tmp_path / "hold.cubin", text], check=True, capture_output=True)


def test_it_opens_for_its_own_turn_alone(clock):
    word, queued, numbers = Word(), [], set()
    gate = StreamGate(word, queued.append)
    for _ in range(20):
        gate.close()
        pointer, number, most_ns = struct.unpack("<QI4xQ", queued[-1])
        assert (pointer, most_ns, len(queued[-1])) == (word.pointer, 1000 * MOST_US, HOLD_BYTES)
        assert number != word.value
        assert gate.open() == clock[0]
        assert word.value == number
        assert not gate.was_late
        numbers.add(number)
    # A kernel may write the word; one that knew the next number would have the device begin before the host's clock.
    assert max(numbers) - min(numbers) > 1 << 20


def test_a_host_that_is_late_says_since_when_the_device_went_on(clock):
    gate = StreamGate(Word(), lambda packed: None)
    gate.close()
    clock[0] += MOST_US + 500
    assert gate.open() == 1000 + MOST_US
    assert gate.was_late
    gate.close()
    clock[0] += 10
    assert gate.open() == clock[0]
    assert not gate.was_late


@pytest.mark.parametrize(("steps", "each_us", "queued"), [(65, 4, 64), (65, 12, 51), (1000, 4, 64), (64, 40, 16)])
def test_what_is_hidden_from_the_hosts_clock_is_less_than_the_referee_forgives(clock, steps, each_us, queued):
    """The referee's clock begins with the order, the host's when the gate opens; they may differ by 1,000 us."""
    word, opened_at = Word(), []
    gate = StreamGate(word, lambda packed: None)

    def step():
        opened_at.append(word.value != 0)
        clock[0] += each_us

    gate.close()
    started_us = gate.queue([step] * steps)
    assert opened_at.index(True) == queued
    assert len(opened_at) == steps
    hidden_us = started_us - 1000.0
    assert hidden_us == queued * each_us
    assert hidden_us < 700


def test_a_host_that_was_not_running_for_a_while_still_queues_a_few_steps_first(clock):
    word, seen = Word(), []
    gate = StreamGate(word, lambda packed: None)
    gate.close()
    clock[0] += 900
    gate.queue([lambda: seen.append(word.value)] * 8)
    assert seen == [0] * 8
    assert word.value


def test_few_steps_are_all_queued_before_the_device_begins(clock):
    word = Word()
    gate = StreamGate(word, lambda packed: None)
    gate.close()
    seen = []
    assert gate.queue([lambda: seen.append(word.value)] * 20) == clock[0]
    assert seen == [0] * 20
    assert word.value


def test_a_baseline_that_was_late_while_the_host_was_busy_is_held_again(monkeypatch):
    held, busy = [], [True]
    baseline = TorchBaseline("cpu", lambda: None)

    def started(compute, is_held=True):
        held.append(is_held)
        return (lambda: 1.0), is_held and not busy[0]

    monkeypatch.setattr(baseline, "_started", started)
    problem = find_problem("relu")
    start = baseline.timer(problem, {}, problem.timing_sizes)
    for _ in range(10):
        start()
    assert held == [True] * 3 + [False] * 5 + [True, False]
    busy[0] = False
    for _ in range(10):
        start()
    assert held[-4:] == [True] * 4


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("pause_s", "within_us"), [(0.0, 200.0), (0.0005, 200.0), (0.004, 4200.0)], ids=["at_once", "late", "too_late"]
)
def test_a_baseline_that_is_queued_slowly_takes_no_longer(pause_s, within_us):
    import torch

    from evaluator.backends.gpu.tensors import claim_device

    claim_device()
    timer = TorchBaseline("cuda", lambda: None)
    values = torch.ones(1 << 16, device="cuda")

    def compute():
        values.add_(1.0)
        time.sleep(pause_s)
        return values.add_(1.0)

    timer._started(compute)[0]()  # the first run of an operator loads its code, which takes milliseconds
    times_us = {True: [], False: []}
    usual = times_us[pause_s < 0.001]
    for _ in range(60):
        reading, in_time = timer._started(compute)
        times_us[in_time].append(reading())
        if len(usual) == 12:
            break
    # A host that has much else to do may be late with some, which `timer` then holds again, and a GPU that others use
    # may be theirs for a while; neither is so most of the time.
    assert len(usual) == 12
    median_us = sorted(usual)[6]
    # One that waits longer than the stream is held counts what is left of it, and never less.
    assert median_us < within_us
    if pause_s > 0.001:
        assert not times_us[True]
        assert median_us > 1e6 * pause_s - MOST_US - 500


@pytest.mark.gpu
def test_launches_of_a_plan_follow_each_other_without_waiting_for_the_host():
    """Ten small fills, queued with a pause after each: held, the device has them back to back."""
    from evaluator.backends.gpu.runner.cuda_device import CudaDevice, cuda

    device = CudaDevice()
    try:
        memory = cuda.mem_alloc(1 << 16)
        sink = cuda.mem_alloc(1 << 20)
        device._sweep_arguments = struct.pack("<QI4xQ", int(sink), (1 << 20) // 16, int(sink))

        def launch():
            cuda.memset_d32_async(memory, 7, 1 << 14, None)
            until_s = time.perf_counter() + 25e-6
            while time.perf_counter() < until_s:
                pass

        many, none = [launch] * 10, []
        device.go(many)
        alone_us, held_us = (sorted(device.go(many, held) for _ in range(9))[4] for held in (False, True))
        empty_us = sorted(device.go(none, True) for _ in range(9))[4]
        assert held_us[0] < alone_us[0] / 2
        # The host's clock begins when the device may: it sees no more of the queueing than of none.
        assert held_us[1] - held_us[0] < empty_us[1] - empty_us[0] + 25
        # Of more than the device waits for, what comes later counts as ever; no clock is behind the device's.
        event_us, host_us = device.go(many * 16, True)
        assert host_us > event_us - 2
    finally:
        device._context.pop()
