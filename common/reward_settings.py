"""What a reward's terms cost where that can be set, and the price of hazards."""

from dataclasses import dataclass

HAZARDS_PENALTY = 0.1
"""Of `weighted` and `gated`, and of `components` by default: a third of what being correct earns at least, so that no
wrong answer is worth more, and more than a barrier that is left away gains by speed."""


@dataclass(frozen=True)
class ComponentSettings:
    """Weights and thresholds of the `components` reward. The five shares sum to 1."""

    compilation: float = 0.30
    correctness: float = 0.30
    performance: float = 0.25
    efficiency: float = 0.10
    code_quality: float = 0.05
    improvement_bonus: float = 0.05
    """Full when the speedup is `improvement_full` above the previous best, relative to it."""
    improvement_full: float = 0.5
    warnings_penalty: float = 0.02
    warnings_full: int = 5
    """Warnings at which the penalty is full."""
    spills_penalty: float = 0.02
    occupancy_penalty: float = 0.02
    occupancy_threshold: float = 0.5
    """Below it the penalty grows linearly, to full at 0; so for the next two."""
    warp_efficiency_penalty: float = 0.02
    warp_efficiency_threshold: float = 0.8
    bandwidth_penalty: float = 0.02
    bandwidth_threshold: float = 0.5
    hazards_penalty: float = HAZARDS_PENALTY

    def __post_init__(self) -> None:
        shares = (self.compilation, self.correctness, self.performance, self.efficiency, self.code_quality)
        penalties = self.penalties
        if min(*shares, *penalties, self.improvement_bonus) < 0 or abs(sum(shares) - 1) > 1e-9:
            raise ValueError(f"weights must not be negative, and the five shares must sum to 1; they are {shares}")
        if sum(penalties) > min(self.compilation, self.correctness):
            raise ValueError(
                f"penalties sum to {sum(penalties):g}, more than compiling or being correct earns: "
                "a submission that fails could then earn more than one that works"
            )
        scales = (self.improvement_full, self.warnings_full, self.occupancy_threshold)
        if min(*scales, self.warp_efficiency_threshold, self.bandwidth_threshold) <= 0:
            raise ValueError("thresholds and full marks must be positive")

    @property
    def penalties(self) -> tuple[float, ...]:
        """Every penalty at its full price."""
        return (
            self.warnings_penalty,
            self.spills_penalty,
            self.occupancy_penalty,
            self.warp_efficiency_penalty,
            self.bandwidth_penalty,
            self.hazards_penalty,
        )
