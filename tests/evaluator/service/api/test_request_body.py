"""How bodies are read: what is counted, what is held meanwhile, in whose turn."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract import Submission
from evaluator.service.api import request_body
from evaluator.service.api.errors import ApiError
from evaluator.service.api.request_body import Reader, count_values

TEXTS = st.text(st.sampled_from('"\\,[{}]:\n aé\U0001f600'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


def values_in(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    # An empty list and an empty object may hold one value, for all that a count of marks can say.
    return 1 + (sum(map(values_in, inner)) if inner else isinstance(value, list | dict))


@pytest.mark.parametrize("piece_bytes", [2, 3, 7, 1 << 18])
@pytest.mark.parametrize("ascii_only", [True, False])
@given(VALUES)
@settings(max_examples=60, deadline=None, database=None)
def test_as_many_values_are_counted_as_there_are_wherever_pieces_end(piece_bytes, ascii_only, value):
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_body, "_PIECE_BYTES", piece_bytes)
        assert count_values(text, 10_000) == values_in(value)


def test_counting_ends_at_the_bound():
    assert count_values(b"[" + b"1," * 100_000 + b"1]", 50) == 51
    assert count_values(b'""' * 100_000, 50) == 51


def read(body, hold=lambda size_bytes: None):
    return asyncio.run(Reader().read(bytearray(body), Submission, "a tenant", hold))


def body_of(source, **changes):
    return json.dumps({"problem": "relu", "source": source, **changes}, ensure_ascii=False).encode()


@pytest.mark.parametrize("source", ["x" * 10, "x" * (1 << 20), "é" * (1 << 20), "\U0001f600" + "x" * (1 << 20)])
def test_a_body_is_read_and_what_it_takes_is_held_before(source):
    held, body = [], body_of(source)
    assert read(body, held.append).source == source
    if len(source) > 10:
        width = max(1, (ord(max(source)).bit_length() + 7) // 8)
        assert held[0] > len(body) + len(source) * min(4, width)
        assert held[1] < held[0]


def test_a_body_that_finds_no_room_is_not_parsed(monkeypatch):
    monkeypatch.setattr(request_body, "parse_json", lambda body: pytest.fail("parsed"))

    def no_room(size_bytes):
        raise ApiError("busy", "Too much.")

    with pytest.raises(ApiError, match="Too much"):
        read(body_of("x" * (1 << 20)), no_room)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (body_of("x", plan={"steps": [1] * 300_000}), "holds more than 262144 values"),
        (body_of("x", plan={"steps": [1] * 200_000}), "plan.steps has too many values: 256 are allowed"),
        (body_of("\n" * (5 << 20)), "holds more than 4194304 backslashes"),
        (body_of("x", settings={"sizes": {"n": 10**1000}}), "holds a number of 1000 digits"),
        (body_of("x")[:-1], "is not JSON: EOF"),
        (b"", "is not JSON: EOF"),
        (b'{"problem":"relu","source":"\\ud800"}', "is not JSON"),
        (b'{"problem":"relu","source":"\xff"}', "is not JSON"),
        (b"[" * 30 + b"]" * 30, "must be an object"),
        (b"[" * 30_000, "is not JSON: recursion limit exceeded"),
    ],
    ids=range(10),
)
def test_why_a_body_is_refused(body, said):
    with pytest.raises(ApiError) as refused:
        read(body)
    assert said in str(refused.value.detail)
    assert refused.value.name == "invalid-request"


def test_a_number_may_be_as_long_as_any_that_means_something():
    digits = b"1" + b"0" * 998
    body = b'{"problem":"relu","source":"","settings":{"sizes":{"n":' + digits + b"}}}"
    assert read(body).settings.sizes == {"n": 10**998}


def test_tenants_do_not_wait_for_each_others_turns():
    order = []

    async def both():
        reader = Reader()

        async def one(tenant, size):
            await reader.read(bytearray(body_of("x" * size)), Submission, tenant, lambda size_bytes: None)
            order.append(tenant)

        greedy = [asyncio.create_task(one("greedy", 4 << 20)) for _ in range(50)]
        await asyncio.sleep(0)
        await one("modest", 1 << 20)
        for task in greedy:
            await task

    asyncio.run(both())
    assert order.index("modest") < 25
