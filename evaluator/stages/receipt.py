"""The receipt: what is needed to reproduce a verdict, and the seed that was fixed before the first run."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from common.contract import CONTRACT_VERSION, Receipt, Settings
from common.launch_plan import LaunchPlan
from evaluator import __version__
from evaluator.problems.problem import Problem
from evaluator.stages.compilation import Compiled


@dataclass(frozen=True)
class Seed:
    """A secret seed: committed to before the first run, revealed after the last."""

    secret: bytes

    @staticmethod
    def fresh() -> "Seed":
        """256 bits from the operating system."""
        return Seed(secrets.token_bytes(32))

    @property
    def commitment(self) -> str:
        """SHA-256 of the secret."""
        return hashlib.sha256(self.secret).hexdigest()

    def generator(self) -> np.random.Generator:
        """The generator that all inputs and hidden sizes are drawn from."""
        return np.random.Generator(np.random.PCG64(int.from_bytes(self.secret, "big")))


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
        settings=settings,
        seed_commitment=seed.commitment,
        seed=seed.secret.hex(),
        duration_s=round(duration_s, 4),
        phases_s=dict(phases_s),
    )
