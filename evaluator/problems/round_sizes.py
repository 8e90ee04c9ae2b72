"""Sizes that kernels have cases of their own for: powers of two and what is one off them, odd multiples of them, each
rest of a division by 8, and so many items for each of a block's threads.

A kernel that is wrong at one such number alone (rows of exactly 256, six elements left over) hardly meets it in a few
random sizes. So each size of a problem goes through most of these numbers, drawn so that nobody knows which.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from evaluator.problems.problem import Problem, Sizes

_SETS: Final = 30
"""Of the 41 numbers of each name. Each costs a full verification of a second some three milliseconds."""
_MOST_WORK: Final = 1 << 16
"""Operations and words of memory of one trial: a simulator does it in less than a millisecond."""
_POWERS: Final = 13
"""1 to 4,096: blocks, tiles and what one block serves."""
_BLOCKS: Final = (256, 512, 1024, 2048, 4096)
"""One more and one less than these have a block, or a turn of one, with one thread alone, or with all but one: a grid
of `(n + 1022) / 1024` blocks is short by one at few sizes, and right at all others."""
_ONE_OFF: Final = 8
"""Of the ten numbers of each name that are one off a block."""
_TILES: Final = (32, 64, 128)
"""Likewise of tiles, where several sizes multiply: one more than some of these, for each size by itself."""
_MOST_TILES: Final = 4
_DIVISIBLE: Final = ((192,), (160,), (224,), (15360, 3840), (21504, 5376))
"""Likewise of tiles and blocks that are no power of two: multiples of 96, 160, 192, 224, 320, 384, 448, 640, 768, 896
and 960. Of each the first that is affordable."""
_ODD: Final = (3, 5, 7)
_RESTS: Final = 8
"""Of vectors of up to eight elements."""
_MOST_ROWS: Final = 256
"""Of every size but the last: a right kernel may have a block of 1,024 threads for each, and little to do for it."""
_ITEMS: Final = range(2, 9)
"""Elements of a row for each thread of a block: what is kept in registers has a case for each."""
_THREADS: Final = (256, 512, 1024, 1024)
"""Of such a block. What a block of 1,024 has twice the chance of is met by none of the powers."""
_MOST_GROUPS: Final = 6
"""Groups of eight before a rest, so that each number up to 16 comes up in one evaluation of three."""


def round_sizes(problem: Problem, generator: np.random.Generator) -> tuple[Sizes, ...]:
    """Some sets of sizes, in each of which every name has a number of its own, drawn from some forty.

    Where all of them together are too much work, each name in its turn keeps its number and the others are small. A
    problem without sizes has none.
    """
    names = problem.sizes
    if not names:
        return ()
    drawn = _in_turn(problem, {name: _numbers(generator) for name in names}, _SETS, generator)
    # What is drawn of the parent later does not hang on how many are one off something.
    (child,) = generator.spawn(1)
    one_off = [block + by for block in _BLOCKS for by in (-1, 1)]
    lists = {name: [int(number) for number in child.permutation(one_off)] for name in names}
    drawn += _in_turn(problem, lists, _ONE_OFF, child)
    for leading in names:
        small = {name: int(child.integers(1, 9)) for name in names}
        room = _most(problem)[leading] - 1
        tiles = [(tile * int(child.integers(1, _MOST_TILES, endpoint=True)), tile) for tile in _TILES]
        for whole in (*tiles, *_DIVISIBLE):
            fitting = (one for one in whole if one <= room)
            tried = (_affordable(problem, {**small, leading: one + 1}, leading, child) for one in fitting)
            drawn += [sizes for sizes in tried if sizes is not None][:1]
    return tuple(dict(entry) for entry in {tuple(sizes.items()): sizes for sizes in drawn}.values())


def _in_turn(
    problem: Problem, lists: Mapping[str, list[int]], sets: int, generator: np.random.Generator
) -> list[Sizes]:
    """So many sets of sizes, of which each name in its turn keeps its number."""
    drawn: list[Sizes] = []
    for turn in range(sets):
        wanted = {name: numbers[turn] for name, numbers in lists.items()}
        leading = problem.sizes[turn % len(problem.sizes)]
        sizes = _affordable(problem, wanted, leading, generator)
        if sizes is not None:
            drawn.append(sizes)
    return drawn


def _numbers(generator: np.random.Generator) -> list[int]:
    """Each power of two, an odd multiple of each, one number for each rest and for each count of items, in a random
    order.
    """
    powers = [1 << power for power in range(_POWERS)]
    multiples = [power * int(generator.choice(_ODD)) for power in powers]
    rests = [8 * int(generator.integers(_MOST_GROUPS)) + rest for rest in range(1, _RESTS + 1)]
    threads = [int(generator.choice(_THREADS)) for _ in _ITEMS]
    items = [count * some - int(generator.integers(some)) for count, some in zip(_ITEMS, threads, strict=True)]
    return [int(number) for number in generator.permutation([*powers, *multiples, *rests, *items])]


def _affordable(problem: Problem, wanted: Sizes, leading: str, generator: np.random.Generator) -> Sizes | None:
    """`wanted`, with all but the leading size halved, the largest first, until there is little to do."""
    most = _most(problem)
    sizes = {name: min(size, most[name]) for name, size in wanted.items()}
    while not _cheap(problem, sizes):
        others = [name for name in sizes if name != leading and sizes[name] > 1]
        if not others:
            return None
        largest = max(others, key=lambda name: sizes[name])
        sizes[largest] = max(1, sizes[largest] // 2 - int(generator.integers(2)))
    return sizes


def _most(problem: Problem) -> Sizes:
    """Of every size."""
    rows = dict.fromkeys(problem.sizes[:-1], _MOST_ROWS)
    return {name: min(problem.serves.most[name], rows.get(name, problem.serves.most[name])) for name in problem.sizes}


def _cheap(problem: Problem, sizes: Sizes) -> bool:
    work = problem.work(sizes)
    return work.flops + (work.read_bytes + work.written_bytes) / 4 <= _MOST_WORK and problem.serves.admits(sizes)
