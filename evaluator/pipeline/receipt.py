"""The receipt: what is needed to reproduce a verdict and to trust it."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from common.contract import CONTRACT_VERSION, Receipt, Settings, Signature, Verdict
from common.launch_plan import LaunchPlan
from evaluator import __version__
from evaluator.problems.problem import Problem
from evaluator.seed import Seed
from evaluator.stages.compile.nvcc import Compiled

if TYPE_CHECKING:
    from common.signature import Signer


def plan_sha256(plan: LaunchPlan) -> str:
    """SHA-256 of a plan as it travels."""
    return hashlib.sha256(plan.model_dump_json().encode()).hexdigest()


def receipt(
    *,
    problem: Problem,
    settings: Settings,
    plan: LaunchPlan | None,
    raw: bytes,
    compiled: Compiled | None,
    device: str,
    sandbox: str,
    sandbox_image: str | None = None,
    seed: Seed,
    duration_s: float,
    phases_s: Mapping[str, float],
) -> Receipt:
    """The receipt of one evaluation; `raw` is the source as it came in."""
    return Receipt(
        contract_version=CONTRACT_VERSION,
        grader_version=__version__,
        problem_version=problem.version,
        source_sha256=hashlib.sha256(raw).hexdigest(),
        plan_sha256=plan_sha256(plan) if plan else None,
        ptx_sha256=compiled.ptx_sha256 if compiled else None,
        canonical_ptx_sha256=compiled.canonical_ptx_sha256 if compiled else None,
        cubin_sha256=compiled.cubin_sha256 if compiled else None,
        toolchain=compiled.toolchain if compiled else None,
        arch=compiled.arch if compiled else None,
        device=device,
        sandbox=sandbox,
        sandbox_image=sandbox_image,
        settings=settings,
        seed_commitment=seed.commitment,
        seed=seed.secret.hex(),
        duration_s=round(duration_s, 4),
        phases_s=dict(phases_s),
        graded_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )


def signed(verdict: Verdict, signer: "Signer | None") -> Verdict:
    """The verdict with a signature over all of it in its receipt; unchanged where it has none, or there is no key."""
    if signer is None or verdict.receipt is None:
        return verdict
    from common.signature import signed_text

    # Over the JSON that travels, since that is what others have to check with.
    value = signer.sign(signed_text(json.loads(verdict.model_dump_json())))
    signature = Signature(key_id=signer.key_id, public_key=signer.public_key, value=value)
    return verdict.model_copy(update={"receipt": verdict.receipt.model_copy(update={"signature": signature})})
