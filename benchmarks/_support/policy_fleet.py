"""Kernels such as a policy writes: half of them far slower than PyTorch, a third of them bad, no two alike.

The honest ones are the naive kernels of all problems, the corpus of honest kernels (CUB, WMMA, cooperative groups,
several launches, functors) and templates; the bad ones do not compile, are wrong, leave their buffers, or never end.
"""

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Final, Literal

from benchmarks._support.kernel_variants import bad
from benchmarks._support.kernel_variants import honest as variants
from evaluator.problems.catalogue import find_problem

_TESTS: Final = Path(__file__).parents[2] / "tests"
sys.path.insert(0, str(_TESTS / "gpu"))

import corpus  # noqa: E402

Kind = Literal["slow", "usual", "bad"]

_SLOW_NAIVE: Final = (
    *("reduce_sum", "row_sum", "prefix_sum", "histogram", "matvec", "matmul", "softmax", "layer_norm", "rms_norm"),
    *("conv2d", "linear_gelu", "attention", "matmul_f16"),
)
"""Problems whose naive kernel PyTorch beats by five times or more (`results/example_kernels_speed.json`)."""
_SLOW_CORPUS: Final = (
    *("attention_block_rows", "attention_three_launches", "conv2d_direct", "conv2d_optional_bias"),
    *("histogram_cub_sort", "histogram_eight_ballots", "layer_norm_double", "linear_gelu_naive"),
    *(
        "linear_gelu_two_launches",
        "linear_gelu_warp",
        "matmul_f16_half2",
        "matmul_f16_plain",
        "matmul_f16_wmma_square",
    ),
    *("matmul_f64_tensor_cores", "matmul_naive", "matmul_split_k", "prefix_sum_chunk_per_thread"),
    *("prefix_sum_cub_block_scan", "prefix_sum_three_kernels", "reduce_sum_cas_double", "reduce_sum_kahan"),
    *("row_sum_unrolled_thread", "softmax_any_sync"),
)
"""Of the corpus, what is written without regard to speed: one thread for a row, plain products, many launches."""
_WRONG: Final = (
    *("softmax_without_maximum", "layer_norm_sample_variance", "layer_norm_naive_variance", "gelu_by_tanh"),
    *("gelu_by_sigmoid", "attention_unscaled", "bias_only", "linear_gelu_by_tanh", "tail_of_256", "tail_of_32"),
    *("linear_gelu_weight_not_transposed", "wrong_at_odd_sizes", "square_only", "first_rows_only"),
    *("conv2d_wraps_around", "grid_of_1024_without_a_loop", "eps_hard_coded", "alpha_hard_coded"),
    *("rms_norm_without_eps", "matmul_in_float16", "zeros", "mean", "output_not_zeroed", "negative_index"),
    *("null_pointer", "wild_pointer", "misaligned_vector", "write_one_past_the_end", "trap", "swiglu_hard"),
    *("f16_accumulator", "second_pass_of_1024_partials", "nan_output", "infinity_output", "empty_kernel"),
)
"""Of `tests/adversarial`, what goes wrong without ill will, and on a GPU as well as on the simulator."""
_NEVER_ENDS_EVERY: Final = 24
"""Of the bad ones; each holds the whole GPU until its time is up."""


@dataclass(frozen=True)
class FleetKernel:
    """One submission of the fleet."""

    name: str
    kind: Kind
    problem: str
    source: str
    flags: tuple[str, ...] = ()

    def numbered(self, number: int) -> "FleetKernel":
        """The same kernel as a program of its own: nothing that is known of another one is known of it."""
        own = f"\n__device__ unsigned int fleet_number = {number}u;\n"
        return FleetKernel(f"{self.name}#{number}", self.kind, self.problem, self.source + own, self.flags)


def fleet(seed: int = 0) -> Iterator[FleetKernel]:
    """Without end, in a drawn order; of each six three are slow, one is not, and two are bad."""
    generator = random.Random(seed)
    pools = {kind: cycle(generator.sample(found, len(found))) for kind, found in _pools().items()}
    number = 0
    while True:
        turn: list[Kind] = ["slow", "slow", "slow", "usual", "bad", "bad"]
        generator.shuffle(turn)
        for kind in turn:
            number += 1
            # Another seed numbers from elsewhere.
            yield next(pools[kind]).numbered((seed << 20) + number)


def _pools() -> dict[Kind, list[FleetKernel]]:
    honest = {case.name: case for case in (*corpus.honest(), *corpus.suspicious())}
    of_corpus: dict[Kind, list[FleetKernel]] = {"slow": [], "usual": []}
    for name, case in honest.items():
        kind: Kind = "slow" if name in _SLOW_CORPUS else "usual"
        flags = tuple(case.head.get("flags", "").split())
        of_corpus[kind].append(FleetKernel(name, kind, case.head["problem"], case.source, flags))
    naive = [
        FleetKernel(f"{problem.id}_as_given", "slow", problem.id, problem.naive.source)
        for problem in map(find_problem, _SLOW_NAIVE)
        if problem.naive is not None
    ]
    templates = [FleetKernel(v.name, "usual", v.problem, v.source) for v in variants()[::3]]
    return {
        "slow": [*of_corpus["slow"], *naive],
        "usual": [*of_corpus["usual"], *templates],
        "bad": _bad(),
    }


def _bad() -> list[FleetKernel]:
    wrong = [corpus.read(_TESTS / "adversarial" / f"{name}.cu") for name in _WRONG]
    found = [FleetKernel(case.name, "bad", case.head["problem"], case.source) for case in wrong]
    found += [_broken(v.name, v.problem, v.source, number) for number, v in enumerate(variants()[1::11])]
    found += [FleetKernel(v.name, "bad", v.problem, v.source) for v in bad(8) if not v.name.startswith("hangs")]
    endless = corpus.read(_TESTS / "adversarial" / "endless_loop.cu")
    ends = [FleetKernel("endless_loop", "bad", endless.head["problem"], endless.source)]
    return [*found, *ends * max(1, len(found) // _NEVER_ENDS_EVERY)]


def _broken(name: str, problem: str, source: str, number: int) -> FleetKernel:
    """It does not compile: a name that nobody declared, a statement without its end, a brace too few."""
    match number % 3:
        case 0:
            text = source.replace("threadIdx.x", "thread_id", 1)
        case 1:
            text = re.sub(r";\n", "\n", source, count=1)
        case _:
            text = source.rstrip().removesuffix("}")
    return FleetKernel(f"{name}_broken", "bad", problem, text)
