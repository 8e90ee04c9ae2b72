"""What is sent, and what has to come back: every submission with the one status that is right for it."""

import random
from dataclasses import dataclass

from common.contract import Settings, Status, Submission

HEAD = "__global__ void relu(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
SOURCES = {
    Status.PASSED: HEAD + "if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.0f; }\n",
    Status.INCORRECT: HEAD + "if (i < n) y[i] = x[i]; }\n",
    Status.COMPILE_ERROR: HEAD + "if (i < n) y[i] = max_of(x[i]); }\n",
    Status.RUNTIME_ERROR: HEAD + "y[i + (1 << 28)] = x[i]; }\n",
    Status.TIMEOUT: HEAD + "while (true) y[0] = *(volatile float*)y + 1.0f; }\n",
}
SHARES = {
    Status.PASSED: 46,
    Status.INCORRECT: 22,
    Status.COMPILE_ERROR: 18,
    Status.RUNTIME_ERROR: 10,
    Status.TIMEOUT: 4,
}
UNCACHED = 0.3
"""Share of the sources that nobody has compiled before."""
REPEATED = 0.15
"""Share of those that may be answered by a verdict that exists."""


@dataclass(frozen=True)
class Sent:
    """One submission, and what is right for it."""

    submission: Submission
    right: Status
    fresh: bool
    """A new verdict is asked for, so there has to be an evaluation of its own."""


def mix(count, seed):
    """`count` submissions, the same for the same seed; what is not to be in any cache names the seed."""
    chance = random.Random(seed)
    found = []
    for index in range(count):
        right = chance.choices(list(SHARES), list(SHARES.values()))[0]
        source = SOURCES[right]
        if chance.random() < UNCACHED:
            source += f"// {seed} {index}\n"
        settings = Settings(verification="quick", run_timeout_s=1.0 if right is Status.TIMEOUT else 30.0)
        submission = Submission(problem="relu", source=source, backend="sim", settings=settings)
        found.append(Sent(submission, right, chance.random() >= REPEATED))
    return found
