"""The contract: submission, evaluation, verdict and status, as they travel on the wire.

The exported JSON schema is `common/schema/contract.json`; a change to it needs a new `CONTRACT_VERSION`.
"""

from common.contract.correctness import (
    Correctness,
    Fault,
    Generalisation,
    HazardWarning,
    Mismatch,
    OtherThread,
    Smallest,
    Trial,
    Verification,
)
from common.contract.problem import ProblemFace, ScalarFace, TensorFace
from common.contract.reference import (
    MAX_REFERENCE_BYTES,
    Reference,
    ReferenceKind,
    foreign_problem_id,
    is_foreign_problem,
)
from common.contract.submission import (
    MAX_FLAG,
    MAX_SIZE_NAME,
    MAX_SIZES,
    MAX_SOURCE_BYTES,
    GpuName,
    OtherSizes,
    RewardName,
    Settings,
    Submission,
)
from common.contract.timing import DeviceState, Timing
from common.contract.verdict import (
    Compilation,
    Diagnostic,
    Evaluation,
    Finding,
    KernelResources,
    Occupancy,
    Phase,
    Profile,
    Receipt,
    Reward,
    RewardTerm,
    Screening,
    Severity,
    Signature,
    Status,
    Verdict,
)

CONTRACT_VERSION = "1.3"

__all__ = [
    "CONTRACT_VERSION",
    "MAX_FLAG",
    "MAX_REFERENCE_BYTES",
    "MAX_SIZES",
    "MAX_SIZE_NAME",
    "MAX_SOURCE_BYTES",
    "Compilation",
    "Correctness",
    "DeviceState",
    "Diagnostic",
    "Evaluation",
    "Fault",
    "Finding",
    "Generalisation",
    "GpuName",
    "HazardWarning",
    "KernelResources",
    "Mismatch",
    "Occupancy",
    "OtherSizes",
    "OtherThread",
    "Phase",
    "ProblemFace",
    "Profile",
    "Receipt",
    "Reference",
    "ReferenceKind",
    "Reward",
    "RewardName",
    "RewardTerm",
    "ScalarFace",
    "Screening",
    "Settings",
    "Severity",
    "Signature",
    "Smallest",
    "Status",
    "Submission",
    "TensorFace",
    "Timing",
    "Trial",
    "Verdict",
    "Verification",
    "foreign_problem_id",
    "is_foreign_problem",
]
