"""Generation by transformers, as a rollout of verl: for machines without a GPU, and for GPUs without vLLM or SGLang.

verl keeps a *server* for each replica (a Ray actor that generates), a *replica* (its handle) and, in every process
that trains, an *adapter* that hands new weights over. Requests are batched continuously (Yu et al., Orca, OSDI 2022)
by transformers' own manager; sampling is ours, so that each request has a random stream of its own: the same prompt,
seed and weights draw the same tokens, whatever else is in the batch.

*Deterministic mode*: the logits themselves depend on a batch's shape in their last bits. With `full_determinism` each
request is therefore alone in its batch.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ray
import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.model_runner import ModelRunner
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput
from verl.workers.rollout.utils import ensure_async_iterator

from trainer.errors import PolicyError, is_out_of_memory
from trainer.policies.sampling import nucleus

BLOCK_TOKENS = 32
"""Tokens in a block of the cache."""
ARRIVAL_S = 0.002
"""How soon a request that arrives while nothing runs is looked for."""
WATCH_S = 1.0
"""How often a request that is waited for looks whether anything generates at all."""
REQUEST_KEYS = {"seed": int, "temperature": float, "top_p": float}
"""What may differ from request to request."""
DEVICES = "CUDA_VISIBLE_DEVICES"
"""The GPUs of a process, by the numbers that the driver has for them."""


@dataclass(frozen=True)
class Draw:
    """How one token is drawn."""

    seed: int
    position: int
    """Of the token in the answer."""
    temperature: float
    top_p: float


def draw_tokens(logits: torch.Tensor, draws: Sequence[Draw]) -> tuple[torch.Tensor, torch.Tensor]:
    """A token for each row, int64 [rows], and its log-probability under what it was drawn from, float32 [rows].

    `logits`: float32 [rows, vocabulary], on the CPU. Temperature 0 takes the most probable token, whose
    log-probability is then that under temperature 1. A draw depends on its seed, its position and its row alone: what
    is drawn for all rows at once is what would be drawn one by one.
    """
    temperatures = torch.tensor([one.temperature if one.temperature > 0 else 1.0 for one in draws])
    log_probs = torch.log_softmax(logits / temperatures[:, None], dim=-1)
    log_probs = nucleus(log_probs, torch.tensor([one.top_p if one.temperature > 0 else 1.0 for one in draws]))
    summed = torch.cumsum(log_probs.double().exp(), dim=-1)
    chances = torch.stack([_chance(one) for one in draws])
    drawn = torch.searchsorted(summed, chances[:, None] * summed[:, -1:], right=True).clamp(max=summed.shape[-1] - 1)
    greedy = torch.tensor([one.temperature <= 0 for one in draws])
    tokens = torch.where(greedy, torch.argmax(log_probs, dim=-1), drawn[:, 0])
    return tokens, log_probs.gather(-1, tokens[:, None])[:, 0]


def _chance(draw: Draw) -> torch.Tensor:
    stream = torch.Generator().manual_seed((draw.seed * 1_000_003 + draw.position) % (1 << 63))
    return torch.rand((), generator=stream, dtype=torch.float64)


class SeededRunner(ModelRunner):
    """transformers' runner of batches, sampling each request from a stream of its own."""

    def _sample(self, scores: torch.Tensor, logits_indices: torch.Tensor, output_ids: torch.Tensor) -> None:
        states = [one.state for one in self.inputs_and_outputs.requests_in_batch if one.has_new_token]
        if not states:
            return
        rows = scores[0][logits_indices[: len(states)]].float().cpu()
        tokens, log_probs = draw_tokens(rows, [_draw(state) for state in states])
        output_ids[0, : len(states)] = tokens.to(output_ids)
        # The second row is the same storage read as float32, as transformers does it.
        output_ids[1, : len(states)] = log_probs.view(torch.int32).to(output_ids)


def _draw(state: Any) -> Draw:
    settings = state.logit_processor_kwargs
    return Draw(settings["seed"], state.generated_len(), settings["temperature"], settings["top_p"])


class Generator:
    """One model that answers many requests at a time. Used from one event loop."""

    def __init__(
        self,
        model: Any,
        *,
        eos_token_ids: list[int],
        context_tokens: int,
        concurrency: int,
        one_at_a_time: bool = False,
    ) -> None:
        """`context_tokens`: longest sequence, prompt included; `concurrency`: requests in one batch."""
        self.model = model
        self._eos = eos_token_ids
        self._context_tokens = context_tokens
        self._room = asyncio.Semaphore(1 if one_at_a_time else concurrency)
        self._numbers = itertools.count()
        per_request = -(-context_tokens // BLOCK_TOKENS) + 1
        running = 1 if one_at_a_time else concurrency
        self._batching = ContinuousBatchingConfig(
            block_size=BLOCK_TOKENS,
            num_blocks=per_request * running,
            max_batch_tokens=max(context_tokens, 256),
            max_blocks_per_request=0,
            # A block that was shared would outlive the weights that it was computed with.
            allow_block_sharing=False,
            use_async_batching=False,
            use_cuda_graph=False,
            return_logprobs=True,
        )
        self._manager: Any = None

    def start(self) -> None:
        """Begin to answer."""
        settings = GenerationConfig(do_sample=False, max_new_tokens=self._context_tokens, eos_token_id=self._eos)
        manager = self.model.init_continuous_batching(
            generation_config=settings, continuous_batching_config=self._batching
        )
        manager.logit_processor.supported_keys |= REQUEST_KEYS
        make = manager._create_batch_processor

        def seeded() -> Any:
            made = make()
            made.model_runner.__class__ = SeededRunner
            return made

        manager._create_batch_processor = seeded
        manager._has_new_requests.wait = _impatient(manager._has_new_requests.wait)
        # A thread is a daemon where that which starts it is one. A process that Ray asks to end waits for all others,
        # and nothing would ever stop the loop: it, and the GPU's memory that it holds, would outlive the run.
        starting = threading.Thread(target=manager.start, daemon=True)
        starting.start()
        starting.join()
        self._manager = manager

    def stop(self) -> None:
        """Finish what is under way, and answer no more."""
        if self._manager is not None:
            self._manager.stop(block=True)
            self._manager = None

    async def answer(
        self, prompt_ids: list[int], *, max_tokens: int, seed: int, temperature: float, top_p: float
    ) -> tuple[list[int], list[float], bool]:
        """New tokens, their log-probabilities, and whether the limit cut the answer off.

        Raises PolicyError where generation fails.
        """
        max_tokens = min(max_tokens, self._context_tokens - len(prompt_ids))
        if max_tokens < 1:
            raise PolicyError(
                f"A prompt of {len(prompt_ids)} tokens leaves no room in a context of {self._context_tokens}."
            )
        async with self._room:
            loop = asyncio.get_running_loop()
            done: asyncio.Future[Any] = loop.create_future()
            name = f"request-{next(self._numbers)}"
            self._manager.register_result_handler(name, partial(_settle, done))
            added = self._manager.add_request(
                prompt_ids,
                request_id=name,
                max_new_tokens=max_tokens,
                eos_token_id=self._eos,
                seed=seed,
                temperature=temperature,
                top_p=top_p,
            )
            # After an error in its loop transformers takes no more requests, and says so in its log only.
            running = added is not None
            while running and not done.done():
                # Whatever the loop says before it ends is here before the wait is over.
                running = self._manager.is_running()
                await asyncio.wait({done}, timeout=WATCH_S)
            if not done.done():
                said = self._manager.fatal_error or "it was stopped"
                raise PolicyError(f"transformers generates no more: {said}", _remedy(str(said)))
        result = done.result()
        if result.error is not None:
            raise PolicyError(f"transformers could not generate: {result.error}", _remedy(str(result.error)))
        tokens = list(result.generated_tokens)
        return tokens, list(result.logprobs), not tokens or tokens[-1] not in self._eos

    def load(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take over new weights by name. Nothing may be under way. Raises PolicyError for names it does not have."""
        own = self.model.state_dict()
        seen = set()
        with torch.no_grad():
            for name, value in weights:
                if name not in own:
                    raise PolicyError(f"The trained model has a weight {name!r} that the generating one has not.")
                own[name].copy_(value)
                seen.add(name)
        # A tied head is one tensor under two names, of which one is sent.
        pointers = {own[name].data_ptr() for name in seen}
        missing = sorted(name for name, value in own.items() if name not in seen and value.data_ptr() not in pointers)
        if missing:
            raise PolicyError(f"No new weights came for {', '.join(missing[:3])} ({len(missing)} in all).")


def _remedy(said: str) -> str | None:
    if not is_out_of_memory(said):
        return None
    # The cache has room for `concurrency` whole sequences, and is made when the first request comes.
    return "Lower rollout.concurrency or rollout.sequence_tokens; the run goes on from its last checkpoint."


def _settle(done: asyncio.Future[Any], result: Any) -> None:
    # The caller may have been cancelled in the meantime.
    if not done.done():
        done.set_result(result)


def _impatient(wait: Any) -> Any:
    def soon(timeout: float | None = None) -> bool:
        return bool(wait(timeout=timeout if timeout is None else max(timeout, ARRIVAL_S)))

    return soon


def server_name(rollout: Any, replica_rank: int) -> str:
    """Name of a replica's Ray actor: adapters find it by this."""
    custom = rollout.custom or {}
    return f"{custom['server_name']}-{replica_rank}"


def _place(worker: Any) -> tuple[str, str | None]:
    """The node of a process of verl's, and the GPUs that it was given; None where it has the whole machine's."""
    return ray.get_runtime_context().get_node_id(), os.environ.get(DEVICES)


class TransformersServer:
    """What generates; a Ray actor. Its methods are those that verl 0.9.1 calls on a server."""

    def __init__(self, model_path: str, rollout: dict[str, Any]) -> None:
        """`rollout`: dtype, device, context_tokens, concurrency, one_at_a_time, threads, attention."""
        if rollout["threads"]:
            torch.set_num_threads(rollout["threads"])
        model = AutoModelForCausalLM.from_pretrained(
            model_path, dtype=getattr(torch, rollout["dtype"]), attn_implementation=rollout["attention"]
        ).to(rollout["device"])
        eos = model.generation_config.eos_token_id
        self._generator = Generator(
            model,
            eos_token_ids=[eos] if isinstance(eos, int) else list(eos or []),
            context_tokens=rollout["context_tokens"],
            concurrency=rollout["concurrency"],
            one_at_a_time=rollout["one_at_a_time"],
        )
        self._step: int | None = None
        self._started = False

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: Any = None,
        video_data: Any = None,
    ) -> TokenOutput:
        """Answer one request."""
        if not self._started:
            self._generator.start()
            self._started = True
        tokens, log_probs, cut = await self._generator.answer(
            list(prompt_ids),
            max_tokens=sampling_params["max_tokens"],
            seed=sampling_params["seed"],
            temperature=sampling_params["temperature"],
            top_p=sampling_params["top_p"],
        )
        return TokenOutput(
            token_ids=tokens,
            log_probs=log_probs,
            stop_reason="length" if cut else "completed",
            extra_fields={"global_steps": self._step},
        )

    async def load(self, weights: list[tuple[str, torch.Tensor]], step: int | None) -> None:
        """Take over new weights."""
        self._generator.load(weights)
        self._step = step

    async def sleep(self) -> None:
        """Weights stay where they are: host memory is not what GPUs are short of."""

    async def wake_up(self) -> None:
        """As for `sleep`."""

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Requests are awaited, never aborted: the trainer is synchronous."""

    async def resume_generation(self) -> None:
        """As for `abort_all_requests`."""

    async def release_kv_cache(self) -> None:
        """Nothing is under way while weights come, and the cache of what is over is used again."""

    async def resume_kv_cache(self) -> None:
        """As for `release_kv_cache`."""

    async def clear_kv_cache(self) -> None:
        """As for `release_kv_cache`: no request shares blocks of another one."""


class TransformersReplica(RolloutReplica):
    """verl's handle of a server."""

    async def launch_servers(self) -> None:
        """Start the server where the first of the replica's workers is."""
        custom = self.config.custom
        node, devices = await self.workers[0].__ray_call__.remote(_place)
        # Ray gives the server no GPU, so that it would see all of them, and generate on the first.
        placed = custom["device"] == "cuda" and devices is not None
        own = {"runtime_env": {"env_vars": {DEVICES: devices}}} if placed else {}
        server = (
            ray.remote(TransformersServer)
            .options(
                name=server_name(self.config, self.replica_rank),
                num_cpus=0,
                max_concurrency=self.max_concurrency,
                scheduling_strategy=ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False),
                **own,
            )
            .remote(
                self.model_config.path,
                {
                    "dtype": self.config.dtype,
                    "device": custom["device"],
                    "context_tokens": self.config.max_model_len,
                    "concurrency": self.config.max_num_seqs,
                    "one_at_a_time": custom["one_at_a_time"],
                    "threads": custom["threads"],
                    "attention": custom["attention"],
                },
            )
        )
        await server.wake_up.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = server_name(self.config, self.replica_rank)


class TransformersRollout(BaseRollout):
    """The adapter in a process that trains, or beside a server with GPUs of its own."""

    def __init__(self, *arguments: Any, replica_rank: int | None = None, **named: Any) -> None:
        """`replica_rank`: of the server with GPUs of its own beside which this is."""
        super().__init__(*arguments, **named)
        self._replica_rank = replica_rank

    async def resume(self, tags: list[str]) -> None:
        """Nothing was released."""

    async def release(self) -> None:
        """Nothing to release."""

    async def update_weights(
        self, weights: Any, wire_format: str = "named_tensors", global_steps: int | None = None, **_: Any
    ) -> None:
        """Hand all weights over, from the first process of each replica.

        `weights`: names and tensors, one after another; as they come from another GPU, asynchronously.
        """
        size = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        rank = int(os.environ.get("RANK", "0"))
        # Every process takes part in gathering a weight that is spread over them. What came over the network lies in
        # a buffer that the next weights are written to.
        whole = [(name, value.detach().to("cpu", copy=True)) async for name, value in ensure_async_iterator(weights)]
        if rank % size == 0:
            # Processes that train are numbered through all replicas, those beside a server through its own.
            replica = rank // size if self._replica_rank is None else self._replica_rank
            server = ray.get_actor(server_name(self.config, replica))
            await server.load.remote(whole, global_steps)
