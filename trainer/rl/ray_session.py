"""Ray for the time of a run: a cluster that is there, or one of its own on this machine."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError

from trainer.config.schema import TrainingConfig
from trainer.errors import ConfigurationError, TrainerError, is_out_of_memory
from trainer.rl.processes import ray_settings


class ProcessLostError(TrainerError):
    """One of verl's processes failed or died: the run ends."""


@contextmanager
def started(config: TrainingConfig, environment: Mapping[str, str]) -> Iterator[None]:
    """Ray, until the end of the block. Raises ConfigurationError for a cluster that cannot be reached."""
    if ray.is_initialized():
        yield
        return
    # Workers find the trainer where this process found it.
    path = {"PYTHONPATH": os.environ["PYTHONPATH"]} if os.environ.get("PYTHONPATH") else {}
    # Ray says at each start that it is as safe as it should be; that it is not safe it says elsewhere, and is heard.
    said = logging.getLogger("ray._private.authentication.authentication_token_setup")
    said.addFilter(_news)
    try:
        ray.init(**ray_settings(config), runtime_env={"env_vars": {**path, **environment}})
    except ConnectionError as error:
        raise ConfigurationError(
            f"There is no Ray cluster at {config.resources.ray_address}: {error}",
            "Start it (`ray up`, or `ray start --head`), or leave resources.ray_address empty.",
        ) from error
    except Exception as error:
        # Ray itself knows no better class for a node that does not come up in time.
        raise ProcessLostError(
            f"Ray could not be started: {error}",
            "A machine with too much other work is the usual reason: try again when there is less.",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _news(record: logging.LogRecord) -> bool:
    return "Token authentication is enabled" not in record.getMessage()


@contextmanager
def failures_told() -> Iterator[None]:
    """What Ray says of a process that failed, as an error that says what to do."""
    try:
        yield
    except RayError as error:
        raise process_lost(error) from error


def process_lost(error: RayError) -> ProcessLostError:
    """What Ray says of a process that failed or died, with what to do."""
    text = str(error).strip()
    if isinstance(error, OutOfMemoryError) or is_out_of_memory(text):
        return ProcessLostError(
            f"A process of the run failed for want of memory: {text[-3000:]}",
            "Lower algorithm.micro_batch_size, rollout.sequence_tokens or rollout.memory_share, or set "
            "model.offload; the run goes on from its last checkpoint.",
        )
    if isinstance(error, RayActorError):
        return ProcessLostError(
            f"A process of the run died: {text[-3000:]}",
            "The same command goes on from the last checkpoint. `dmesg` says whether the kernel ended the process "
            "for want of memory; verl.log in the run's folder may say more.",
        )
    return ProcessLostError(
        f"A process of the run failed: {text[-3000:]}",
        "The run goes on from its last checkpoint; verl.log in its folder may say more.",
    )
