"""Servers of vLLM, up to vLLM: verl's own manager, replicas, adapters, router and client, with actors of a real Ray.

vLLM needs a GPU. In its place stand a package in which every name is an empty class, so that verl's modules can be
imported, and an actor that answers in the place of verl's HTTP server.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.policies import models

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[3]
PACKAGE = """
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

__version__ = "0.24.0"


class Empty(MetaPathFinder, Loader):
    def find_spec(self, name, path, target=None):
        return ModuleSpec(name, self, is_package=True) if name.startswith("vllm.") else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__getattr__ = attribute


def attribute(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


__getattr__ = attribute
sys.meta_path.append(Empty())
"""
RUN = """
import asyncio, json, os, sys
from types import SimpleNamespace

from trainer.config.reading import load_config
from trainer.rl.settings import verl_config, worker_environment

asked = json.loads(sys.argv[1])
config = load_config("one-gpu", asked["settings"])
os.environ.update(worker_environment(config))
# There is no GPU here; Ray is told of two.
os.environ.update({"VERL_PLATFORM": "cpu", "VERL_ENGINE_DEVICE": "cuda", "RAY_LOCAL_WORLD_SIZE": "2"})

import ray
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.llm_server import LLMServerManager
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.vllm_rollout import vllm_async_server

from trainer.conversation.conversation import Message
from trainer.policies.models import load_model
from trainer.rl.agent_loop import AgentSlot, BusyTimer, ServerPolicy

TURNS, CONVERSATIONS = 4, 8


class Server:
    def __init__(self, config, replica_rank, **_):
        self.name, self.under_way, self.seen = f"{config.custom['server_name']} {replica_rank}", set(), []

    def get_master_address(self):
        return "127.0.0.1", 1, 2

    def launch_server(self, **_):
        pass

    def get_server_address(self):
        return self.name, 8000

    async def generate(self, request_id, prompt_ids, sampling_params, **_):
        assert request_id not in self.under_way, "vLLM would refuse it"
        self.under_way.add(request_id)
        self.seen.append((sampling_params["seed"], request_id))
        await asyncio.sleep(0.02)
        self.under_way.remove(request_id)
        return TokenOutput(token_ids=[1], log_probs=[0.0])

    def told(self):
        return self.name, self.seen


class Worker:
    pass


async def conversation(policy, seed):
    messages = [Message("user", "Write a kernel.")]
    for _ in range(TURNS):
        await policy.respond(tuple(messages), seed=seed, max_tokens=8)
        messages += [Message("assistant", "No."), Message("user", "Again.")]


async def play(clients, tokenizer):
    slots = [AgentSlot(f"1.0.{number // 2}", number % 2, None, number, 1) for number in range(CONVERSATIONS)]
    await asyncio.gather(
        *(
            conversation(ServerPolicy(client, tokenizer, config, slot, BusyTimer()), slot.seed)
            for client in clients
            for slot in slots
        )
    )


vllm_async_server.vLLMHttpServer = Server
ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False)
found, clients, servers = {}, [], []
for role in config.roles:
    # As `deterministic` has it: vLLM gets the ids of requests as they are, and not new ones of verl's.
    composed = verl_config(config.model_copy(update={"deterministic": role == "optimizer"}), role, asked["model"])
    workers = [ray.remote(Worker).options(num_cpus=0, num_gpus=0.5).remote() for _ in range(2)]
    group = SimpleNamespace(world_size=2, workers=workers)
    manager = LLMServerManager.create(config=composed, worker_group=group)
    servers += [server for replica in manager.get_replicas() for server in replica.servers]
    clients.append(manager.get_client())
    found[role] = []
    for rank in ("0", "1"):
        os.environ["RANK"] = rank
        settings = composed.actor_rollout_ref
        adapter = get_rollout_class("vllm", "async")(settings.rollout, None, None)
        assert adapter._ensure_server_handle()
        found[role].append(ray.get(adapter.server_handle.told.remote())[0])
asyncio.run(play(clients, load_model(asked["model"])[1]))
told = dict(ray.get([server.told.remote() for server in servers]))
print("FOUND" + json.dumps({"adapters": found, "servers": told}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Of two agents on two GPUs that take turns: the server that each process which trains found, and which requests
    each server got.
    """
    folder = tmp_path_factory.mktemp("vllm")
    (folder / "vllm").mkdir()
    (folder / "vllm" / "__init__.py").write_text(PACKAGE)
    (folder / "vllm-0.24.0.dist-info").mkdir()
    (folder / "vllm-0.24.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.24.0\n")
    models.make_tiny(folder / "model", ["__global__ void one() {}"] * 3, seed=0)
    settings = (
        "rollout.name=vllm",
        "resources.layout=shared",
        "resources.gpus_per_node=2",
        "agents.optimizer={}",
        "flow.max_turns=2",
    )
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            RUN,
            json.dumps({"settings": settings, "model": str(folder / "model")}),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder), os.environ.get("PYTHONPATH", "")])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    return json.loads(line.removeprefix("FOUND"))


def test_each_agent_has_servers_of_its_own_where_all_share_gpus(found):
    assert found["adapters"] == {
        "generator": ["assay-generator 0", "assay-generator 1"],
        "optimizer": ["assay-optimizer 0", "assay-optimizer 1"],
    }


def test_all_turns_of_a_conversation_go_to_one_server_which_has_their_prefix(found):
    for role in ("generator", "optimizer"):
        seen = [found["servers"][f"assay-{role} {number}"] for number in (0, 1)]
        conversations = [{seed for seed, _ in one} for one in seen]
        assert conversations[0] | conversations[1] == set(range(8))
        assert not conversations[0] & conversations[1]
        assert sum(map(len, seen)) == 32


def test_vllm_tells_conversations_apart_also_where_it_gets_our_ids(found):
    """That no id is under way twice, the actor in its place has looked at."""
    ids = {name: {request_id for _, request_id in seen} for name, seen in found["servers"].items()}
    assert len(ids["assay-optimizer 0"] | ids["assay-optimizer 1"]) == 8
    assert len(ids["assay-generator 0"] | ids["assay-generator 1"]) == 32, "verl's own"
