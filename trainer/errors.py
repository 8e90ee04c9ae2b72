"""What can go wrong in the trainer itself. A kernel that is wrong is no exception: it is a turn with a verdict.

TrainerError
├── ConfigurationError  a setting is wrong or contradicts another one: nothing was started
├── OracleError         an evaluation failed on our side: there is no verdict, so there is no reward
│   └── OracleLostError      too many of them, or the evaluator stays away: the run ends
├── PolicyError         a policy broke its contract: for example a log-probability that is not a number
├── ContextFullError         the next turn does not fit into the context: the conversation ends there
└── CheckpointError     a checkpoint cannot be written, or read back
"""

import re
from typing import Final

_NO_MEMORY: Final = re.compile(
    r"CUDA(?: error)?: out of memory|CUDA out of memory|OutOfMemoryError|ALLOC_FAILED|DefaultCPUAllocator"
    r"|[Cc]annot allocate memory"
)
"""What torch, cuBLAS, cuDNN and the kernel say where memory is used up. "OOM" and "memory usage" are not in it: Ray
names them as a possible reason of any process that died.
"""


class TrainerError(Exception):
    """Something on the trainer's side failed: what and where, and in `remedy` what to do about it."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy


class ConfigurationError(TrainerError):
    """A setting is wrong, unknown, or contradicts another one."""


class OracleError(TrainerError):
    """An evaluation failed on our side. Its conversation is left out of the batch and counted; it is never a 0."""

    def __init__(self, message: str, remedy: str | None = None, evaluation_id: str | None = None) -> None:
        super().__init__(message, remedy)
        self.evaluation_id = evaluation_id
        """The evaluation, where it had been accepted before it failed."""


class OracleLostError(OracleError):
    """The run cannot go on: too large a share of the evaluations failed, or the evaluator does not come back."""


class PolicyError(TrainerError):
    """A policy gave what no policy may give. Its conversation is no use, and the run should stop."""


class CheckpointError(TrainerError):
    """A checkpoint could not be written, or what was read back is not what was written."""


class ContextFullError(TrainerError):
    """What would be asked next leaves a policy no room to answer. It ends a conversation, and is no fault."""


def is_out_of_memory(text: str) -> bool:
    """Whether the text of an error says that memory, of a GPU or of the host, was used up."""
    return _NO_MEMORY.search(text) is not None
