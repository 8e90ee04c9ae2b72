"""Generation by transformers: batched, and yet each request has a random stream of its own."""

import asyncio
import threading
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.continuous_batching import continuous_api

from trainer.errors import PolicyError
from trainer.rl.rollout import Draw, Generator, SeededRunner, draw_tokens

EOS = 2
ROW = torch.tensor([2.0, 1.0, 0.0, -1.0, -30.0])


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=128, num_key_value_heads=2, max_position_embeddings=512, **shape)
    return LlamaForCausalLM(config).eval()


def generating(model, work, **settings):
    """What `work` returns, given a generator."""

    async def run():
        generator = Generator(model, eos_token_ids=[EOS], context_tokens=96, concurrency=16, **settings)
        generator.start()
        try:
            return await work(generator)
        finally:
            generator.stop()

    return asyncio.run(run())


def asked(generator, number, **changes):
    settings = {"max_tokens": 24, "seed": number, "temperature": 1.0, "top_p": 1.0, **changes}
    return generator.answer(list(range(3, 20 + number)), **settings)


def test_an_answer_does_not_hang_on_who_else_is_asked(model):
    async def work(generator):
        together = await asyncio.gather(*(asked(generator, number) for number in range(12)))
        alone = [await asked(generator, number) for number in range(12)]
        return together, alone

    together, alone = generating(model, work)
    assert [answer[0] for answer in together] == [answer[0] for answer in alone]
    assert len({tuple(answer[0]) for answer in together}) > 6


def test_log_probabilities_are_those_of_the_model(model):
    tokens, log_probs, _ = generating(model, lambda generator: asked(generator, 5, temperature=0.7))
    prompt = list(range(3, 25))
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0]
    expected = torch.log_softmax(logits / 0.7, dim=-1)
    for place, (token, log_prob) in enumerate(zip(tokens, log_probs, strict=True)):
        assert log_prob == pytest.approx(float(expected[len(prompt) - 1 + place, token]), abs=1e-4)


def test_one_at_a_time_gives_the_same_bits_whoever_comes_first(model):
    def ordered(numbers):
        async def work(generator):
            found = await asyncio.gather(*(asked(generator, number) for number in numbers))
            return dict(zip(numbers, found, strict=True))

        return generating(model, work, one_at_a_time=True)

    assert ordered([1, 2, 3, 4]) == ordered([4, 2, 1, 3])


def test_the_limit_cuts_and_the_context_is_a_limit(model):
    async def work(generator):
        short = await asked(generator, 1, max_tokens=1, temperature=0.0)
        with pytest.raises(PolicyError, match="no room"):
            await generator.answer([5] * 96, max_tokens=4, seed=1, temperature=1.0, top_p=1.0)
        near = await generator.answer([5] * 92, max_tokens=50, seed=1, temperature=1.0, top_p=1.0)
        return short, near

    short, near = generating(model, work)
    assert len(short[0]) == 1
    assert short[2] is (short[0] != [EOS])
    assert len(near[0]) <= 4


def test_new_weights_are_taken_over_whole_or_not_at_all(model):
    async def work(generator):
        before = await asked(generator, 3, temperature=0.0)
        changed = {name: torch.randn_like(value) * 0.2 for name, value in model.state_dict().items()}
        old = {name: value.clone() for name, value in model.state_dict().items()}
        generator.load(changed.items())
        after = await asked(generator, 3, temperature=0.0)
        with pytest.raises(PolicyError, match="has not"):
            generator.load([("model.unknown", torch.zeros(1))])
        with pytest.raises(PolicyError, match="No new weights"):
            generator.load([next(iter(old.items()))])
        generator.load(old.items())
        return before, after, await asked(generator, 3, temperature=0.0)

    before, after, again = generating(model, work)
    assert before[0] != after[0]
    assert before[0] == again[0]


def test_a_process_that_is_asked_to_end_does_not_wait_for_what_generates(model):
    async def work(generator):
        await asked(generator, 1)
        return [thread for thread in threading.enumerate() if thread not in before]

    before = threading.enumerate()
    threads = generating(model, work)
    assert threads
    assert all(thread.daemon for thread in threads)


def failing_sample(*_):
    raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")


def test_after_an_error_in_its_loop_every_request_fails_and_none_waits(model, monkeypatch):
    async def work(generator):
        good = await asked(generator, 1)
        monkeypatch.setattr(SeededRunner, "_sample", failing_sample)
        under_way = await asyncio.gather(*(asked(generator, number) for number in range(40)), return_exceptions=True)
        later = await asyncio.gather(*(asked(generator, number) for number in range(3)), return_exceptions=True)
        return good, under_way, later

    good, under_way, later = generating(model, lambda generator: asyncio.wait_for(work(generator), 60))
    assert good[0]
    for fault in (*under_way, *later):
        assert isinstance(fault, PolicyError)
        assert "CUDA out of memory" in str(fault)
        assert "rollout.concurrency" in fault.remedy


def test_a_cache_that_cannot_be_made_fails_the_requests_that_were_already_there(model, monkeypatch):
    def unmade(*_, **__):
        time.sleep(0.3)
        raise RuntimeError("no room for the cache")

    monkeypatch.setattr(continuous_api, "PagedAttentionCache", unmade)
    with pytest.raises(PolicyError, match="generates no more: no room for the cache"):
        generating(model, lambda generator: asyncio.wait_for(asked(generator, 1), 60))


DRAWS = st.builds(
    Draw,
    st.integers(0, 2**31 - 1),
    st.integers(0, 5000),
    st.one_of(st.floats(0.1, 5), st.just(0.0)),
    st.one_of(st.floats(0.05, 1), st.just(1.0)),
)


@given(st.lists(DRAWS, min_size=1, max_size=5))
def test_a_draw_is_that_of_its_row_alone_and_inside_the_nucleus(draws):
    rows = torch.stack([ROW.roll(number) for number in range(len(draws))])
    tokens, log_probs = draw_tokens(rows, draws)
    for row, draw, token, log_prob in zip(rows, draws, tokens, log_probs, strict=True):
        alone = draw_tokens(row[None], [draw])
        assert (int(token), float(log_prob)) == (int(alone[0]), float(alone[1]))
        likelier = torch.softmax(row / (draw.temperature or 1.0), dim=-1)
        assert float(likelier[likelier > likelier[token]].sum()) < (draw.top_p if draw.temperature else 1e-9)
        assert log_prob <= 0


def test_draws_are_spread_as_the_distribution_says():
    draws = [Draw(seed, seed % 7, 1.0, 1.0) for seed in range(4000)]
    drawn = draw_tokens(ROW.expand(len(draws), -1), draws)[0].tolist()
    expected = torch.softmax(ROW, dim=-1)
    for token in range(4):
        assert drawn.count(token) / 4000 == pytest.approx(float(expected[token]), abs=0.03)


def test_temperature_0_takes_the_most_probable_token():
    assert draw_tokens(ROW[None], [Draw(1, 0, 0.0, 1.0)])[0].tolist() == [0]
