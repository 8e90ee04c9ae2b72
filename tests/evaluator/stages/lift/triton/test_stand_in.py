"""The module in PyTorch's place: shapes, strides and addresses as PyTorch has them, and the page with its names."""

import re
from pathlib import Path

import pytest

from evaluator.stages.lift.triton.inside.dtypes import ALIASES, DTYPES
from evaluator.stages.lift.triton.inside.memory import NotRecordedError, ReadsDataError, RecordedMemory
from evaluator.stages.lift.triton.inside.stand_in_tensor import StandInTensor
from evaluator.stages.lift.triton.inside.stand_in_torch import torch_for

PAGE = Path(__file__).parents[5] / "docs" / "triton.md"
FACTS = dict.fromkeys(
    ("multiprocessor_count", "total_memory", "l2_cache_size", "max_num_regs", "max_threads", "max_shared_mem"), 108
)


@pytest.fixture
def memory():
    return RecordedMemory(7)


@pytest.fixture
def stand_in(memory):
    return torch_for(memory, {"capability": 80, "device_name": "NVIDIA A100", "device": FACTS})


def test_the_page_lists_what_the_stand_in_has(stand_in):
    listed = PAGE.read_text().split("## What can be recorded")[1].split("## ")[0]
    named = set(re.findall(r"`((?:torch\.cuda|torch|Tensor)\.\w+)`", listed))
    reads = {"item", "tolist", "cpu", "numpy", "any", "all", "equal", "nonzero"}
    plain = {*DTYPES, *ALIASES, "cuda"}
    has = {f"Tensor.{name}" for name in vars(StandInTensor) if not name.startswith("_") and name not in reads}
    has |= {f"torch.{name}" for name in vars(stand_in) if not name.startswith("_") and name not in plain}
    has |= {f"torch.cuda.{name}" for name in vars(stand_in.cuda) if not name.startswith("_")}
    assert named == has


VIEWS = [
    lambda x: x.view(4, 6),
    lambda x: x.view(-1, 2),
    lambda x: x.permute(2, 0, 1),
    lambda x: x.transpose(0, -1),
    lambda x: x[1],
    lambda x: x[:, 1:, ::2],
    lambda x: x[..., -1],
    lambda x: x[0, :, None],
    lambda x: x.unsqueeze(1),
    lambda x: x.unsqueeze(-1),
    lambda x: x[:1].squeeze(0),
    lambda x: x[0].t(),
    lambda x: x.flatten(1),
    lambda x: x[:, :1].expand(2, 5, 4),
    lambda x: x.narrow(1, 1, 2),
    lambda x: x.select(2, 3),
    lambda x: x.chunk(2, dim=2)[1],
    lambda x: x.unbind(1)[2],
]


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_views_are_those_of_pytorch(number, stand_in):
    torch = pytest.importorskip("torch")
    theirs, ours = torch.empty(2, 3, 4), stand_in.empty(2, 3, 4)
    expected, found = VIEWS[number](theirs), VIEWS[number](ours)
    assert tuple(found.shape) == tuple(expected.shape)
    assert found.stride() == expected.stride()
    assert (found.data_ptr() - ours.data_ptr()) // 4 == expected.storage_offset()
    assert found.is_contiguous() == expected.is_contiguous()


def test_fills_and_copies_are_written_down_as_bytes(stand_in, memory):
    x = stand_in.full((3,), 1.5, dtype=stand_in.bfloat16)
    y = x.clone()
    y[1:].zero_()
    fill, copy, zeros = memory.steps
    assert (fill["data"], fill["bytes"]) == ("c03f", 6)
    assert (copy["to"], copy["source"], copy["bytes"]) == (y.data_ptr(), x.data_ptr(), 6)
    assert (zeros["fill"], zeros["data"], zeros["bytes"]) == (y.data_ptr() + 2, "00", 4)


def test_what_is_empty_has_no_address(stand_in):
    assert stand_in.empty(0).data_ptr() == 0
    assert stand_in.empty(4, 0).data_ptr() == 0
    assert stand_in.empty(1).data_ptr() != 0


def test_addresses_differ_from_one_recording_to_the_next_and_never_come_twice():
    first, second = ([RecordedMemory(seed).allocate(64) for _ in range(2)] for seed in (1, 2))
    assert first != second
    memory = RecordedMemory(3)
    assert len({memory.allocate(0) for _ in range(100)}) == 100


def test_a_stream_that_is_asked_until_it_is_done_is_waited_for(memory, stand_in):
    stream, event = stand_in.cuda.Stream(), stand_in.cuda.Event()
    assert stream.query()
    assert event.query()
    stand_in.zeros(4)
    assert stream.query()
    with stand_in.cuda.stream(stream):
        stand_in.zeros(4)
    event.record(stream)
    before = len(memory.steps)
    assert [event.query(), stream.query()] == [False, False]
    assert len(memory.steps) == before
    assert [event.query(), stream.query()] == [True, True]
    assert [step["order"] for step in memory.steps[before:]] == ["event", "stream"]


def test_what_it_cannot_say_is_named(stand_in):
    x = stand_in.empty(4)
    for attempt, said in (
        (lambda: stand_in.matmul(x, x), "torch.matmul"),
        (lambda: x.sum(), "torch.Tensor.sum"),
        (lambda: x + 1, "operator on tensors"),
        (lambda: x.double(), "conversion from torch.float32 to torch.float64"),
        (lambda: stand_in.empty(4, 4).t().half(), "conversion from torch.float32 to torch.float16"),
    ):
        with pytest.raises(NotRecordedError, match=re.escape(said)):
            attempt()
    for attempt in (x.item, x.tolist, x.cpu, lambda: bool(x), lambda: float(x)):
        with pytest.raises(ReadsDataError):
            attempt()
    assert not hasattr(x, "tma_desc_cpu_ptr")
    assert not hasattr(stand_in, "sparse")


def test_what_autotuning_tries_is_not_recorded(stand_in, memory):
    x = stand_in.empty(4)
    with memory.paused():
        x.zero_()
        stand_in.empty(4)
    assert memory.steps == []
    assert len(memory.buffers) == 1
