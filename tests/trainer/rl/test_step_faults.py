"""A step in which something goes wrong: no memory in the middle of it, or agents that write no kernel."""

from types import SimpleNamespace

import pytest
import ray.exceptions
import torch
from scripted import kernel, played
from test_going_on import Rehearsal

from trainer.conversation.extraction import wrapped
from trainer.reporting.metrics import read_measures
from trainer.rl import ray_session, runner
from trainer.rl.checkpoints import Checkpoints

MEMORY = "ray::WorkerDict.actor_rollout_update_actor()\ntorch.OutOfMemoryError: CUDA out of memory. Tried 2.00 GiB"
EACH = ("checkpointing.every_episodes=1", "checkpointing.evaluate_at_start=false", "curriculum.name=off")


class Learner:
    """An agent whose weights are the numbers of the steps that it has learned from; memory is used up in one."""

    def __init__(self, fails_in=None):
        self.fails_in, self.weights, self.sent = fails_in, [], []

    def sleep(self):
        """Nothing is kept."""

    def update_parameters(self, step, keys):
        self.weights.append(step)
        if step == self.fails_in:
            raise ray.exceptions.RayError(MEMORY)
        return {"gradient_norm": 1.0}

    def send_weights(self, step):
        self.sent.append(step)

    def save(self, folder, step):
        (folder / f"global_step_{step}").mkdir(parents=True)
        torch.save(self.weights, folder / f"global_step_{step}" / "weights.pt")

    def load(self, found, role):
        if found is not None:
            self.weights = torch.load(found.agent(role) / "weights.pt")


class Learning(Rehearsal):
    """A run of whose step all is real but for conversations and learners."""

    _step = runner._Run._step
    loop = SimpleNamespace(AgentSlot=lambda *of, **_: SimpleNamespace(uid=of[0], candidate=of[1], step=of[4]))

    def __init__(self, folder, *more, fails_in=None, texts=None, keys=True):
        super().__init__(folder, "algorithm.advantage=group", *EACH, *more)
        self.texts, self.keys = texts or [wrapped(kernel("wrong_0")), wrapped(kernel("pass_0"))], keys
        self.learners = {"generator": Learner(), "optimizer": Learner(fails_in)}
        for role, learner in self.learners.items():
            learner.load(self.found, role)

    def _played(self, step):
        talk = played(self.texts)
        keys = {role: f"{role}.{step}" for role in self.learners} if self.keys else None
        seat = SimpleNamespace(uid=f"{step}.0", candidate=0, step=step, task=talk.task)
        outcome = SimpleNamespace(seat=seat, conversation=talk, keys=keys, left_out=None, failure=None)
        return [outcome], {"generating": 0.0, "waiting": 0.0}

    def _evaluate(self, step):
        """None."""


def test_without_memory_in_mid_step_the_run_ends_with_a_remedy_and_goes_on_as_if_the_step_had_not_begun(tmp_path):
    first = Learning(tmp_path, fails_in=3)
    lost = pytest.raises(ray_session.ProcessLostError, match="for want of memory")
    with lost as caught, ray_session.failures_told():
        first.rehearse()
    assert "micro_batch_size" in caught.value.remedy
    # The Generator had learned from this step already, and nobody ever plays with that.
    assert first.learners["generator"].weights == [1, 2, 3]
    assert first.learners["generator"].sent == [1, 2]
    assert Checkpoints(tmp_path / "checkpoints").newest().step == 2

    smaller = Learning(tmp_path, "algorithm.micro_batch_size=2")
    smaller.rehearse()
    assert [learner.weights for learner in smaller.learners.values()] == [[1, 2, 3, 4]] * 2
    assert [line["step"] for line in read_measures(tmp_path)] == [1, 2, 3, 4]


@pytest.mark.parametrize("text", ["", "for (;;) " * 400], ids=["nothing", "without end"])
def test_agents_that_write_no_kernel_are_steps_like_others_and_learn_from_what_has_tokens(tmp_path, text):
    run = Learning(tmp_path, texts=[text, text], keys=bool(text))
    run.rehearse()
    learned = [1, 2, 3, 4] if text else []
    assert run.learners["generator"].weights == learned
    assert run.learners["generator"].sent == [1, 2, 3, 4]
    lines = read_measures(tmp_path)
    assert [line["format_error_rate"] for line in lines] == [1.0] * 4
    assert all(line["failures"] == 0 for line in lines)
