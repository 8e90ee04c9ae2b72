"""Settings of the machines that a run is on, of what it keeps there, and of what it tells."""

from typing import Literal

from pydantic import Field

from trainer import bounds
from trainer.config.section import Section


class ResourcesSection(Section):
    """Machines, and what Ray may use of them [R11, R12, C13, T13]."""

    device: Literal["cuda", "cpu"] = "cuda"
    """What the models run on."""
    nodes: int = Field(default=1, ge=1, le=bounds.MOST_GPUS)
    """Machines of the same kind."""
    gpus_per_node: int = Field(default=8, ge=0, le=bounds.MOST_GPUS)
    """GPUs of each [R11]."""
    layout: Literal["shared", "split"] = "split"
    """`shared`: rollout, actor and critic take turns on every GPU; `split`: each role has GPUs of its own."""
    rollout_workers: int = Field(default=4, ge=1, le=bounds.MOST_GPUS)
    """GPUs that generate, on all nodes together, where the layout is `split`: half of them for each of two agents, or
    so many for each where they have GPUs of their own [R11]."""
    actor_workers: int = Field(default=2, ge=1, le=bounds.MOST_GPUS)
    """GPUs that update the policy, on all nodes together: for both agents by turns, or of each agent where they have
    GPUs of their own [R11]."""
    critic_workers: int = Field(default=2, ge=1, le=bounds.MOST_GPUS)
    """GPUs that update the critic, as for the actor [R11]."""
    reference_workers: int = Field(default=0, ge=0, le=bounds.MOST_GPUS)
    """GPUs that only hold the model that `algorithm.kl_coefficient` compares with, as for the actor; 0 leaves it with
    the policy [T13]."""
    evaluator_gpu: bool = False
    """Keep the last GPU of each machine from the models: for the evaluator beside the run, which an embedded one
    grades on [T13]."""
    generator_gpus: int | None = Field(default=None, ge=1, le=bounds.MOST_GPUS)
    """GPUs that only the Generator uses, on all nodes together; null shares all GPUs between the agents [T13]."""
    optimizer_gpus: int | None = Field(default=None, ge=1, le=bounds.MOST_GPUS)
    """As for the Generator; both have GPUs of their own, or neither."""
    ray_address: str | None = None
    """A running cluster that this machine belongs to: `auto` or `host:6379`; null starts Ray on this machine. All its
    machines must share the run's folder and those of the models."""
    ray_cpus: int | None = Field(default=None, ge=1, le=bounds.MOST_PROCESSES)
    """Processors that Ray may plan with on this machine; null is all of them [C13: 32]."""
    object_store_bytes: int | None = Field(default=None, ge=78643200, le=bounds.MOST_STORE_BYTES)
    """Shared memory for Ray's objects; null is Ray's choice [C13: 50 GB]. Ray takes no less than 75 MiB."""
    io_workers: int = Field(default=4, ge=1, le=bounds.MOST_PROCESSES)
    """Ray's processes that spill objects to disk [C13: 8]."""
    spill_folder: str | None = None
    """Where objects go that the store has no room for; null is Ray's temporary folder [C13]."""
    threads: int | None = Field(default=None, ge=1, le=bounds.MOST_PROCESSES)
    """Threads of each worker's torch; null is torch's choice."""


class CheckpointingSection(Section):
    """What is kept, so that a run can go on [R10, T5]."""

    folder: str = "runs/{name}"
    """Folder of the run; `{name}` is the run's name."""
    every_episodes: int = Field(default=100, ge=1, le=bounds.MOST_EPISODES)
    """Conversations from one checkpoint to the next, rounded up to whole steps [R10]."""
    evaluate_every_episodes: int = Field(default=100, ge=1, le=bounds.MOST_EPISODES)
    """Conversations from one evaluation on held-out tasks to the next, as above [R10]."""
    evaluate_at_start: bool = True
    """Whether the untrained model is evaluated too."""
    keep: int = Field(default=3, ge=1, le=bounds.MOST_STEPS)
    """Newest checkpoints that are kept."""


class LoggingSection(Section):
    """What a run tells about itself [R13, C16, T12]. One line of JSON a step is always written."""

    tensorboard: bool = True
    """Write TensorBoard's event files."""
    wandb: Literal["off", "offline", "online"] = "off"
    """Weights & Biases; `offline` writes a folder that `wandb sync` sends later."""
    wandb_project: str = "assay"
    """Project there."""
    transcripts_share: float = Field(default=1.0, ge=0, le=1)
    """Share of the conversations whose transcripts are kept."""
    progress: bool = True
    """Show bars in the terminal."""
