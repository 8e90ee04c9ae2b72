"""Operations beyond the evaluator's own problems: an expression of PyTorch's at stated shapes, graded as any other.

An operation is a family at one shape. The evaluator gets it as a problem of someone else (`Reference`), so nothing of
it has to be known there; what agents are told of it is a face as the evaluator gives of its own problems.

What is held out hangs on names alone: `HELD_OUT_SHARE` of all families, with every shape, whose kernels are only ever
evaluated on; and of every other family the last shape, which is asked and never answered in a data set.
"""

import ast
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from math import prod
from typing import Final

from common.contract import ProblemFace, Reference, TensorFace
from common.wire import DType
from trainer.data.kernels import columns, maps, moves, products, row_programs, scans
from trainer.data.kernels.family import Family, parameters
from trainer.data.tasks import Task, is_held_out
from trainer.errors import ConfigurationError

FAMILIES: Final = {
    family.name: family
    for module in (maps, row_programs, columns, scans, moves, products)
    for family in module.FAMILIES
}


class Difficulty(IntEnum):
    """A tier, as `ProblemFace.tier` counts them."""

    EASY = 0
    MEDIUM = 1
    HARD = 2


LARGE_WORK: Final = 1 << 20
"""Elements of all operands, for a product terms of all sums, from which an operation is one tier harder."""
_PRODUCTS: Final = frozenset(["matmul", "mm", "bmm", "mv", "addmm", "einsum", "linear"])
_SPREADING: Final = frozenset(["softmax", "log_softmax", "logsumexp", "var", "std", "layer_norm", "rms_norm"])
"""Functions that go over an axis twice."""
_RUNNING: Final = frozenset(
    ["amax", "amin", "argmax", "argmin", "cumsum", "cumprod", "mean", "norm", "prod", "sum"],
)
"""Functions that go along an axis once."""
_MOVING: Final = frozenset(["flip", "permute", "roll", "transpose"])


@dataclass(frozen=True)
class Operation:
    """One family at one of its shapes."""

    family: Family
    index: int
    """Of the shape."""

    @cached_property
    def name(self) -> str:
        """Of the family and the extents of its largest tensor: `row_max_60x100`."""
        return f"{self.family.name}_{'x'.join(map(str, max(self.shapes.values(), key=prod)))}"

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of the tensors that it reads."""
        return self.family.shapes[self.index]

    @property
    def sizes(self) -> dict[str, int]:
        """The distinct extents in order, named as the evaluator names them."""
        extents = dict.fromkeys(extent for shape in self.shapes.values() for extent in shape)
        return {"n" if len(extents) == 1 else f"n{at}": extent for at, extent in enumerate(extents)}

    @cached_property
    def reference(self) -> Reference:
        """As it is sent: an expression, which is of float32 tensors, else the file that says the same of float16."""
        shapes = dict(self.shapes)
        if self.family.element == "float32":
            return Reference(kind="torch", text=self.family.expression, shapes=shapes)
        names = {extent: name for name, extent in self.sizes.items()}
        drawn = [f"torch.randn({', '.join(names[one] for one in shape)}).half()" for shape in shapes.values()]
        lines = [
            "import torch",
            "import torch.nn.functional as F",
            *(f"{name} = {extent}" for name, extent in self.sizes.items()),
            "class Model(torch.nn.Module):",
            f"    def forward(self, {', '.join(shapes)}):",
            f"        return {self.family.expression}",
            "def get_inputs():",
            f"    return [{', '.join(drawn)}]",
        ]
        return Reference(kind="kernelbench", text="\n".join(lines) + "\n", name=f"{self.name}.py")

    @cached_property
    def face(self) -> ProblemFace:
        """What agents are told of it."""
        family, sizes = self.family, self.sizes
        names = {extent: name for name, extent in sizes.items()}
        dtype = DType(family.element)
        declared = parameters(tuple(self.shapes), tuple(sizes), family.element)
        return ProblemFace(
            id=self.name,
            version="1",
            tier=int(difficulty_of(family.expression, self.shapes)),
            title=family.title,
            statement=(
                f"out = {family.expression}, in PyTorch. All tensors are {family.element}, contiguous and row-major; "
                "the kernel must be right at other extents too."
            ),
            inputs=tuple(
                TensorFace(name=name, dtype=dtype, shape=tuple(names[extent] for extent in shape))
                for name, shape in self.shapes.items()
            ),
            outputs=(TensorFace(name="out", dtype=dtype, shape=family.out),),
            scalars=(),
            sizes=tuple(sizes),
            example_sizes=(sizes,),
            timing_sizes=sizes,
            baseline=family.expression,
            tolerance="calibrated by the evaluator on PyTorch's answer in float64",
            distributions=("standard normal",),
            probes=(),
            starter=f"__global__ void {self.name}_kernel({declared})\n{{\n}}\n",
        )

    @property
    def family_is_held_out(self) -> bool:
        """Whether kernels of this family are only ever evaluated on, at every shape."""
        return family_is_held_out(self.family.name)

    @property
    def shape_is_held_out(self) -> bool:
        """Whether this is the shape of its family that is asked and never answered."""
        return len(self.family.shapes) > 1 and self.index == len(self.family.shapes) - 1


def family_is_held_out(name: str) -> bool:
    """Of a family's name alone, for good; the same operation in float16 is on the same side."""
    return is_held_out(f"family {name.removesuffix('_half')}")


def difficulty_of(expression: str, shapes: Mapping[str, tuple[int, ...]]) -> Difficulty:
    """The tier of an expression, by its operators and sizes.

    EASY: every element of the answer is made of the elements at its own place. MEDIUM: an axis is moved, reduced or
    run along, once. HARD: a product of matrices, a function that goes over an axis twice (softmax, a variance), or
    two reductions. Where the operands have `LARGE_WORK` elements or more (a product: its sums as many terms), one
    tier harder. Raises ValueError for what is no expression.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{expression!r} is no expression") from error
    called = [
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    product = bool(_PRODUCTS & set(called)) or any(isinstance(node, ast.MatMult) for node in ast.walk(tree))
    runs = sum(name in _RUNNING for name in called)
    if product or _SPREADING & set(called) or runs > 1:
        found = Difficulty.HARD
    else:
        found = Difficulty.MEDIUM if runs or _MOVING & set(called) else Difficulty.EASY
    work = sum(prod(shape) for shape in shapes.values())
    if product:
        extents = dict.fromkeys(extent for shape in shapes.values() for extent in shape)
        work = prod(extents)
    return Difficulty(min(found + (work >= LARGE_WORK), Difficulty.HARD))


OPERATIONS: Final = {
    operation.name: operation
    for family in FAMILIES.values()
    for operation in (Operation(family, index) for index in range(len(family.shapes)))
}


def chosen_operations(names: Collection[str]) -> tuple[Operation, ...]:
    """Every shape of these families; `all` names all of them. Raises ConfigurationError for an unknown one."""
    for name in names:
        if name not in FAMILIES and name != "all":
            raise ConfigurationError(
                f"There is no family of operations {name!r}.", f"Name all, or some of {', '.join(FAMILIES)}."
            )
    return tuple(one for one in OPERATIONS.values() if "all" in names or one.family.name in names)


def stated(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Tasks of faces of operations, each with the reference that its kernels are graded by."""
    return tuple(
        replace(task, reference=OPERATIONS[task.problem].reference) if task.problem in OPERATIONS else task
        for task in tasks
    )
