"""What a run's memory begins with and what is left of it, in memory of the host and of a GPU."""

import contextlib
from dataclasses import replace

import pytest
import torch
from host_checks import HostDevice
from simulated_checks import RealDevice
from stand_in import FileMemory

from evaluator.backends.gpu.checks import DeviceChecks
from evaluator.backends.gpu.run_memory import RunMemory
from evaluator.backends.gpu.tensors import DeviceMemory, memory_and_values
from evaluator.backends.session import Buffer, PlanRun

N = 1000


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def memory(request):
    """Memory that a runner can map, and device code of ours for it."""
    on_gpu = request.param == "gpu"
    checks = DeviceChecks(RealDevice()._device if on_gpu else HostDevice())
    made = (DeviceMemory if on_gpu else FileMemory)(8 << 20)
    with contextlib.closing(made):
        yield made, checks


def planned(x, **more):
    buffers = (
        Buffer("x", "input", 4 * N, 4, x),
        Buffer("y", "output", 4 * N, 4, None),
        Buffer("t", "temporary", 44, 4, None),
    )
    return PlanRun(buffers, (), 0xFF, 1.0, **more)


def test_a_look_also_writes_what_the_next_run_begins_with_unless_something_is_wrong(memory):
    shared, checks = memory
    whole, of_run = shared.content, RunMemory(shared, checks)
    x, other = (torch.linspace(low, 1.0, N, device=whole.device) for low in (0.0, -1.0))
    run, following = planned(x), planned(other, poison_elsewhere=0x5B)
    placement = of_run.placement((run,))
    where = placement.whole
    there = {place.name: whole[place.offset : place.end] for place in where.places}

    of_run.write((run,), placement)
    there["y"].copy_(x.view(torch.uint8))  # the program
    seen = of_run.look((run,), placement, (None,), (following,))
    assert (seen.looked[0].inputs_kept, seen.looked[0].poisoned) == (True, False)
    assert torch.equal(seen.contents[0]["y"], x.view(torch.uint8))
    assert torch.equal(there["x"], other.view(torch.uint8))
    assert (there["y"].unique().tolist(), there["t"].unique().tolist()) == ([0xFF], [0x5B])

    for place, named in ((where.places[0].offset + 7, None), (where.guards()[1][0], "x")):
        of_run.write((following,), placement)
        whole[place] ^= 1
        before = whole.clone()
        seen = of_run.look((following,), placement, (None,), (run,))
        assert seen is None or not seen.looked[0].inputs_kept
        assert torch.equal(whole, before)
        outside = of_run.trespass(placement)
        assert (outside and outside[1].buffer) == named


def test_a_write_between_early_outputs_is_one_outside_of_the_buffers(memory):
    """Of a kernel that looks for the room behind all buffers; it is no fault of ours."""
    shared, checks = memory
    of_run = RunMemory(shared, checks)
    first = planned(None)
    first = replace(first, buffers=first.buffers[:2])
    runs = first, replace(first, poison=0x5B, same_as_before=True)
    placement = of_run.placement(runs)
    for kept in placement.early:
        of_run.write(runs, placement)
        assert of_run.look(runs, placement, (None, None), ()).within
        shared.content[kept[-1].end] ^= 1
        assert not of_run.look(runs, placement, (None, None), ()).within
        number, fault = of_run.trespass(placement) or of_run.written_early(runs, placement)
        assert (number, fault.kind, fault.buffer) == (0, "out_of_bounds", "y")


@pytest.mark.gpu
def test_device_code_of_ours_works_as_a_referee_launches_it():
    assert DeviceChecks(RealDevice()._device).works(*memory_and_values())
