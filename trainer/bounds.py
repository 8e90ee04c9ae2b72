"""How large and how small the numbers of a configuration may be.

Each bound is far from what anybody runs, and before what breaks: a float32 that is no number any more, a list that
does not fit into memory, a run that ends in centuries. A field that its meaning bounds, as a share is, says so.
"""

from typing import Final

MOST_STEPS: Final = 1_000_000
"""Policy steps, and passes of a schedule: at a minute a step two years."""
MOST_EPISODES: Final = 1_000_000_000
"""Conversations between two events of a run: as many steps of a thousand each."""
MOST_EXAMPLES: Final = 10_000_000
"""Examples to learn from: a hundred times the largest sets of kernels, and still in one machine's memory."""
MOST_PASSES: Final = 100
"""Passes over the same data, and draws of the same step: what is not learned by then is not learned."""
MOST_IN_A_BATCH: Final = 1 << 16
"""Rows of one batch, conversations of one step, or under way: each is a tensor's row and a task of asyncio."""
MOST_CANDIDATES: Final = 1024
"""Conversations of one task in a step; the literature compares 4 to 128."""
MOST_TASKS: Final = 100_000
"""Held-out tasks of one evaluation, each of them a conversation."""
MOST_VARIANTS: Final = 10_000
"""Wordings of a problem: all of them are made at the start."""
MOST_TOKENS: Final = 1 << 20
"""Of a prompt, an answer or a conversation: the longest context that open models have."""
MOST_RANK: Final = 512
"""Of low-rank adapters; above it they are no smaller than the layers that they spare."""
MOST_ALPHA: Final = 1024.0
"""Of low-rank adapters: twice their largest rank, so that none is multiplied by more than that."""
MOST_GPUS: Final = 100_000
"""On all nodes together, and nodes: the largest clusters that there are."""
MOST_PROCESSES: Final = 4096
"""Processes or threads on one machine: more than any has processors."""
MOST_STORE_BYTES: Final = 1 << 46
"""Shared memory of a machine, 64 TiB: the address space that Linux gives one process is twice that."""
MOST_BUFFER_MIB: Final = 1 << 16
"""Of a GPU's memory, 64 GiB, in MiB: what goes through it more than once a step need not fit at once."""
MOST_PATIENCE_S: Final = 7 * 86_400.0
"""A week: a service that is back after it has nobody who waits."""
MOST_WEIGHT: Final = 10.0
"""Of a term beside the reward, which is of the order of 1: above it nothing else is learned, and far above it a loss
in float32 is no number any more."""
MOST_CLIP: Final = 1e4
"""Where a ratio, a value or a norm is cut: nothing near it is ever cut."""
LEAST_CLIP: Final = 1e-3
"""Below it nothing is learned, for everything is cut."""
MOST_SPEEDUP: Final = 1000.0
"""Over a baseline: no kernel that is right comes near."""
LEAST_SPEEDUP: Final = 0.01
"""As a target: any kernel has more, and terms of speed would tell none apart."""
LEAST_RATE: Final = 1e-12
"""Of a learning rate: float32 weights do not change by less."""
LEAST_TEMPERATURE: Final = 0.01
"""Logits are divided by it: a hundred times as steep is the most probable token, and far below it no number."""
MOST_TEMPERATURE: Final = 10.0
"""Every token is about as probable as every other."""
