"""Cross-play on scripted policies that stand for checkpoints."""

import asyncio

import pytest
from scripted import TASK, Judge, Script, kernel

from trainer.conversation.episode import EpisodeSettings, play
from trainer.conversation.extraction import wrapped
from trainer.errors import OracleError
from trainer.policies.crossplay import Pairing, cross_play, specialisation

SETTINGS = EpisodeSettings(turn_tokens=10_000)


def policies(**kernels):
    return {name: Script([wrapped(kernel(each))]) for name, each in kernels.items()}


def paired(generators, optimizers, oracle=None, tasks=(TASK, TASK)):
    async def played(task, both, seed):
        return await play(task, both, oracle or Judge(), SETTINGS, seed, clock=lambda: 5.0)

    return asyncio.run(cross_play(tasks, generators, optimizers, played))


def test_every_generator_meets_every_optimizer():
    found = paired(policies(early="compile_a", late="wrong_a"), policies(early="wrong_b", late="pass_b"))
    assert [(one.generator, one.optimizer) for one in found] == [
        ("early", "early"),
        ("early", "late"),
        ("late", "early"),
        ("late", "late"),
    ]
    assert [one.pass_rate for one in found] == [0, 1, 0, 1]
    assert all(one.conversations == 2 and one.left_out == 0 for one in found)
    assert found[1].gain > 0
    assert found[1].final_reward > found[0].final_reward


def test_what_the_evaluator_failed_at_is_left_out_and_counted():
    class Failing(Judge):
        async def evaluate(self, submission):
            if not self.sources:
                self.sources.append("first")
                raise OracleError("the evaluator is down")
            return await super().evaluate(submission)

    (one,) = paired(policies(a="pass_a"), policies(a="pass_b"), Failing())
    assert (one.conversations, one.left_out) == (1, 1)


def test_specialisation_is_how_much_better_equals_play_together():
    def pairing(generator, optimizer, reward):
        return Pairing(generator, optimizer, reward, 0.5, 0.0, 4, 0)

    matrix = [pairing("1", "1", 0.4), pairing("1", "2", 0.1), pairing("2", "1", 0.2), pairing("2", "2", 0.8)]
    assert specialisation(matrix) == pytest.approx(0.6 - 0.15)
    assert specialisation(matrix[:1]) is None
