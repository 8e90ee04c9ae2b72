"""Servers of `hf` with GPUs of their own: which GPUs they see, and how new weights reach each of them."""

import asyncio
from types import SimpleNamespace

import pytest
import torch

from trainer.config.reading import load_config
from trainer.errors import ConfigurationError
from trainer.rl import rollout, settings

CUSTOM = {"server_name": "assay-optimizer", "attention": "sdpa", "one_at_a_time": False, "threads": None}
SPLIT = ("resources.layout=split", "resources.gpus_per_node=8")


class Remote:
    """A method of an actor, which answers at once."""

    def __init__(self, answer=None):
        self.answer, self.asked = answer, []

    async def remote(self, *arguments, **_):
        self.asked.append(arguments)
        return self.answer


def launched(monkeypatch, device, devices):
    """The options with which a replica starts its server."""
    options, custom = {}, CUSTOM | {"device": device}

    def with_options(**given):
        options.update(given)
        return SimpleNamespace(remote=lambda *_: SimpleNamespace(wake_up=Remote()))

    monkeypatch.setattr(rollout.ray, "remote", lambda _: SimpleNamespace(options=with_options))
    replica = object.__new__(rollout.TransformersReplica)
    replica.replica_rank = 101
    replica.config = SimpleNamespace(custom=custom, dtype="bfloat16", max_model_len=64, max_num_seqs=4)
    replica.model_config = SimpleNamespace(path="/models/one")
    place = Remote(("5f" * 28, devices))
    replica.workers = [SimpleNamespace(__ray_call__=place)]
    asyncio.run(replica.launch_servers())
    return options


def test_a_server_sees_the_gpus_of_its_own_processes_alone(monkeypatch):
    options = launched(monkeypatch, "cuda", "3")
    assert options["name"] == "assay-optimizer-101"
    assert options["runtime_env"] == {"env_vars": {"CUDA_VISIBLE_DEVICES": "3"}}
    assert "runtime_env" not in launched(monkeypatch, "cpu", "0")


@pytest.mark.parametrize(
    ("rank", "replica_rank", "server"), [(3, None, "assay-optimizer-3"), (0, 101, "assay-optimizer-101")]
)
def test_weights_reach_the_server_that_they_are_for_also_from_another_gpu(monkeypatch, rank, replica_rank, server):
    sent = {}

    def get_actor(name):
        return SimpleNamespace(load=sent.setdefault(name, Remote()))

    async def received():
        """As from the network: each weight lies in a buffer that the next is written to."""
        buffer = torch.zeros(2)
        for name in ("first", "second"):
            buffer += 1
            yield name, buffer

    monkeypatch.setattr(rollout.ray, "get_actor", get_actor)
    monkeypatch.setenv("RANK", str(rank))
    adapter = object.__new__(rollout.TransformersRollout)
    adapter.config = SimpleNamespace(custom=CUSTOM, tensor_model_parallel_size=1, data_parallel_size=1)
    adapter._replica_rank = replica_rank
    asyncio.run(adapter.update_weights(received(), global_steps=7))
    (load,) = sent.values()
    ((weights, step),) = load.asked
    assert (list(sent), step) == ([server], 7)
    assert [(name, value.tolist()) for name, value in weights] == [("first", [1, 1]), ("second", [2, 2])]


def test_a_server_has_all_methods_that_verl_calls_when_weights_come_over_the_network():
    for name in ("abort_all_requests", "release_kv_cache", "resume_kv_cache", "clear_kv_cache", "resume_generation"):
        assert asyncio.iscoroutinefunction(getattr(rollout.TransformersServer, name)), name


def test_the_groups_of_two_agents_differ_and_without_cupy_there_are_none(monkeypatch):
    config = load_config("requirements", list(SPLIT))
    composed = [settings.verl_config(config, role, "/models/one") for role in config.roles]
    engines = [one.actor_rollout_ref.rollout.checkpoint_engine for one in composed]
    assert [one.engine_kwargs.nccl.group_name for one in engines] == ["assay-generator", "assay-optimizer"]
    monkeypatch.setattr(settings, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="CuPy"):
        settings.refuse_without_transfer(config)
    settings.refuse_without_transfer(load_config("one-gpu"))
