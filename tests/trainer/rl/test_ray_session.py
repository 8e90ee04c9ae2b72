"""Ray for a run: what is said of a process that was lost."""

import logging

import pytest
from ray._private.authentication import authentication_token_setup
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayError, RaySystemError

from trainer.config.schema import TrainingConfig
from trainer.errors import ConfigurationError
from trainer.rl import ray_session

LOST = (
    "Worker unexpectedly exits with a connection error code 2. There are some potential root causes. (1) The process "
    "is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called."
)


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (OutOfMemoryError("Task was killed due to the node running low on memory."), True),
        (RayError("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RayError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"), True),
        (RayError("torch.AcceleratorError: CUDA error: out of memory"), True),
        (RayError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RaySystemError(LOST), False),
        (ActorDiedError(), False),
        (RayError("ValueError: the ZOOM of a figure"), False),
    ],
)
def test_only_what_names_memory_is_put_down_to_memory(error, memory):
    with pytest.raises(ray_session.ProcessLostError) as caught, ray_session.failures_told():
        raise error
    assert ("for want of memory" in str(caught.value)) is memory
    assert ("micro_batch_size" in caught.value.remedy) is memory


def test_that_ray_is_protected_is_no_line_for_a_person_and_that_it_is_not_is_one(monkeypatch, caplog):
    def init(**_):
        authentication_token_setup._warn_token_auth_enabled()
        authentication_token_setup._warn_token_auth_disabled()
        raise ConnectionError("nobody is there")

    monkeypatch.setattr(ray_session.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_session.ray, "init", init)
    caplog.set_level(logging.WARNING)
    logger = logging.getLogger(authentication_token_setup.__name__)
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(ConfigurationError, match="no Ray cluster"), ray_session.started(TrainingConfig(), {}):
            pass
    finally:
        logger.removeHandler(caplog.handler)
    said = {record.getMessage().split(" for ")[0] for record in caplog.records}
    assert said == {"Token authentication is disabled"}
