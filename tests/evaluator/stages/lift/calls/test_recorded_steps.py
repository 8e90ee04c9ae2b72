"""Two recordings, as they might come from anybody, and the plan that they are, or why they are none."""

import json

import pytest

from common.contract import Status
from common.launch_plan import AddressInArgument, Copy, Fill, RawArgument
from evaluator.backends.session import Entry, Parameter
from evaluator.problems.catalogue import find_problem
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.recorded_steps import PlanReader
from evaluator.stages.lift.recording import Recording, Refusal, recording_of, ruling_of

RELU = find_problem("relu")
KERNEL = Entry(
    "k",
    "k(Pair, float*, int)",
    (
        Parameter("pair", "Pair", "struct", 24, 0),
        Parameter("y", "float*", "pointer", 8, 24, "float"),
        Parameter("n", "int", "int", 4, 32),
    ),
)
SECOND_BASE = 1 << 40


def word(number: int, size_bytes: int = 8) -> str:
    return number.to_bytes(size_bytes, "little", signed=number < 0).hex()


def buffers(base: int, *more: dict) -> list:
    listed = [{"base": base + 4096, "bytes": 64}, {"base": 2 * base + 8192, "bytes": 64}]
    return [*listed, {"base": 3 * base + 16384, "bytes": 256}, *more]


def launch(base: int, pair: str | None = None, y: int | None = None, n: int = -3, **fields) -> dict:
    x = base + 4096
    pair = word(7, 4) + word(9, 4) + word(x + 8) + word(x) if pair is None else pair
    y = 3 * base + 16384 if y is None else y
    step = {"kernel": "k", "grid": [2, 1, 1], "block": [32, 1, 1], "shared_bytes": 16, "cooperative": False}
    return {**step, "cluster": None, "stream": 0, "arguments": [pair, word(y), word(n, 4)], **fields}


def recording(base: int, steps: list, *more: dict) -> bytes:
    return json.dumps(
        {"buffers": buffers(base, *more), "steps": steps, "streams": 1, "calls": [{"first_step": 0}]}
    ).encode()


def plan(make):
    """The plan of `make(base)`, a list of steps, recorded at two bases."""
    found = [recording_of(recording(base, make(base))) for base in (1 << 39, SECOND_BASE)]
    assert all(isinstance(one, Recording) for one in found)
    reader = PlanReader(RELU, (KERNEL,), *(one.call(0) for one in found))
    return reader.plan(reader.steps(None))


def refused(make) -> LiftRefusedError:
    with pytest.raises(LiftRefusedError) as caught:
        plan(make)
    return caught.value


def test_words_that_differ_are_addresses_and_others_are_numbers():
    made = plan(lambda base: [launch(base)])
    (step,) = made.steps
    assert (step.kernel, step.grid, step.block, step.shared_bytes) == ("k", (2, 1, 1), (32, 1, 1), 16)
    pair, y, n = step.args
    addresses = (AddressInArgument(at=8, buffer="x", offset_bytes=8), AddressInArgument(at=16, buffer="x"))
    assert pair == RawArgument(data=word(7, 4) + word(9, 4) + "00" * 16, addresses=addresses)
    assert (y, n) == ("scratch1", -3)
    (scratch,) = made.temporaries
    assert (scratch.name, scratch.dtype.value, scratch.shape) == ("scratch1", "float32", (64,))


OTHER_BASES = ((1 << 39) + 0x1234500, (1 << 40) + 0x7654300)
"""Whose lower halves differ too."""


def between(to: int, from_: int, size_bytes: int, element_bytes: int) -> str:
    return word((to - from_) // element_bytes % (1 << 8 * size_bytes), size_bytes)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda b: [launch(b, n=0, pair=word(1) * 2 + between(2 * b + 8200, b + 4096, 8, 4))], "Argument 1 of k"),
        (lambda b: [launch(b, n=0, pair=word(1) * 2 + between(b + 4096, 2 * b + 8192, 8, 1))], "'x' and 'y'"),
        (lambda b: [launch(b, y=(b + 4104) // 4)], "is the difference of addresses in two arrays"),
        (
            lambda b: [launch(b, arguments=[word(1) * 3, word(b + 4096), between(3 * b + 16384, b + 4096, 4, 4)])],
            "`int n`, is the difference of addresses in two arrays, memory that it allocates and 'x'",
        ),
    ],
)
def test_how_far_two_arrays_are_apart_is_refused_as_what_it_is(make, said):
    found = [recording_of(recording(base, make(base))) for base in OTHER_BASES]
    reader = PlanReader(RELU, (KERNEL,), *(one.call(0) for one in found))
    with pytest.raises(LiftRefusedError) as caught:
        reader.plan(reader.steps(None))
    assert caught.value.ruling.status is Status.REJECTED
    assert said in caught.value.ruling.message


def test_a_number_that_is_nearly_how_far_two_arrays_are_apart_is_not_called_that():
    found = [
        recording_of(recording(base, [launch(base, arguments=[word(1) * 3, word(base + 4096), count])]))
        for base, count in zip(OTHER_BASES, (word(5, 4), word(6, 4)), strict=True)
    ]
    reader = PlanReader(RELU, (KERNEL,), *(one.call(0) for one in found))
    with pytest.raises(LiftRefusedError, match="argument 3 of k, `int n`, is 05000000 in one run"):
        reader.plan(reader.steps(None))


def test_fills_copies_and_uploads_are_of_stretches():
    made = plan(
        lambda base: [
            {"fill": 2 * base + 8192 + 4, "data": "ff", "bytes": 8, "stream": 0},
            {"to": 2 * base + 8192, "source": base + 4096 + 16, "bytes": 32, "stream": 1},
            launch(base),
        ]
    )
    assert made.steps[0] == Fill(target="y", data="ff", offset_bytes=4, size_bytes=8)
    assert made.steps[1] == Copy(source="x", target="y", source_offset_bytes=16, size_bytes=32)


def test_a_variable_is_a_target_by_its_name():
    made = []
    for base in (1 << 39, SECOND_BASE):
        variable = {"base": 5 * base, "bytes": 36, "variable": "filter"}
        steps = [{"to": 5 * base + 4, "source": base + 4096, "bytes": 32, "stream": 0}]
        made.append(recording_of(recording(base, steps, variable)))
    (step,) = PlanReader(RELU, (KERNEL,), *(one.call(0) for one in made)).steps(None)
    assert step == Copy(source="x", target="filter", target_offset_bytes=4, size_bytes=32, variable=True)


@pytest.mark.parametrize(
    ("make", "status", "said"),
    [
        (lambda b: [launch(b)] * (1 + b // SECOND_BASE), Status.REJECTED, "another number of launches"),
        (lambda b: [launch(b, grid=[b >> 30, 1, 1])], Status.REJECTED, "in another way"),
        (lambda b: [launch(b, n=b >> 38)], Status.REJECTED, "argument 3 of k"),
        (lambda b: [launch(b, y=b)], Status.REJECTED, "at no buffer's address"),
        (lambda b: [launch(b, y=b + 4096 + (b >> 39))], Status.REJECTED, "at no buffer's address"),
        (lambda b: [launch(b, y=3 * b + 16384 + 257)], Status.REJECTED, "at no buffer's address"),
        (lambda b: [{"free": 2}, launch(b)], Status.RUNTIME_ERROR, "freed before"),
        (lambda b: [launch(b, kernel="judge")], Status.RUNTIME_ERROR, "no kernel of the program"),
        (lambda b: [launch(b, arguments=[])], Status.RUNTIME_ERROR, "no kernel of the program"),
        (lambda b: [launch(b, arguments=["00", "00", "00"])], Status.REJECTED, "has another size"),
        (lambda b: [], Status.INVALID_SUBMISSION, "launches nothing"),
        (lambda b: [{"free": 2}], Status.INVALID_SUBMISSION, "launches nothing"),
        (lambda b: [launch(b)] * 4097, Status.INVALID_SUBMISSION, "4097 steps"),
        (
            lambda b: [{"fill": 2 * b + 8192, "data": word(b + 4096), "bytes": 8, "stream": 0}],
            Status.UNSUPPORTED,
            "copies addresses",
        ),
        (
            lambda b: [{"fill": 2 * b + 8192, "data": word(b >> 38), "bytes": 8, "stream": 0}],
            Status.REJECTED,
            "other data",
        ),
    ],
)
def test_what_is_no_plan_is_refused_with_its_reason(make, status, said):
    refusal = refused(make)
    assert refusal.ruling.status is status, refusal.ruling
    assert said in refusal.ruling.message


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[" * 100_000,
        b"null",
        b'{"buffers": [], "steps": [], "streams": 1, "verdict": "passed"}',
        b'{"buffers": [{"base": -1, "bytes": 4}], "steps": [], "streams": 1}',
        b'{"buffers": [{"base": 1e30, "bytes": 4}], "steps": [], "streams": 1}',
        b'{"buffers": [], "steps": [{"free": "0"}], "streams": 1}',
        b'{"buffers": [], "steps": [{"launch": 1}], "streams": 1}',
        b'{"refusal": {"why": "passed", "name": "", "number": 0}}',
        b'{"refusal": {"why": "freed", "name": "two words", "number": 0}}',
        b'{"buffers": [], "steps": [], "streams": 1}' + b" " * (8 << 20),
        json.dumps({"buffers": [{"base": 1, "bytes": 1}] * 513, "steps": [], "streams": 1}).encode(),
    ],
)
def test_a_text_that_no_recorder_writes_is_rejected(text):
    with pytest.raises(LiftRefusedError) as caught:
        recording_of(text)
    assert caught.value.ruling.status is Status.REJECTED


def test_every_reason_has_words_and_none_of_them_are_the_host_codes_own():
    for why in Refusal.model_fields["why"].annotation.__args__:
        ruling = ruling_of(Refusal(why=why, name="cudaMemcpy", number=7), {}).ruling
        assert ruling.message.endswith(".")
        assert ruling.hint
