"""Reductions over another axis than the last: a block an answer, a thread an answer, tiles of 32 answers."""

from dataclasses import dataclass
from typing import Final, Literal

from common.contract import Status
from trainer.data.kernels.family import Family, Shapes, arguments, parameters
from trainer.data.kernels.style import Flaw, Style

_WRONG, _BAD_ACCESS = Status.INCORRECT, Status.RUNTIME_ERROR


@dataclass(frozen=True)
class _Columns:
    """Answer `i` is made of the terms of the rows `j`."""

    name: str
    title: str
    expression: str
    term: str
    """C, with `AT` for the index of row `j` in the column of answer `i`."""
    result: str = "sum"
    kind: Literal["sum", "max"] = "sum"
    mistake: tuple[str, str] = ("out[i] = ", "out[i] = 1.0f + ")
    middle: bool = False
    """Whether it is the middle one of three axes, not the first of two."""

    @property
    def sizes(self) -> tuple[str, ...]:
        return ("n0", "n1", "n2") if self.middle else ("n0", "n1")

    @property
    def count(self) -> str:
        """Answers."""
        return "n0 * n2" if self.middle else "n1"

    @property
    def extent(self) -> str:
        """Terms of each."""
        return "n1" if self.middle else "n0"

    @property
    def start(self) -> str:
        return "0.0f" if self.kind == "sum" else "-INFINITY"

    def taken(self, name: str, other: str) -> str:
        """The statement that takes in another value."""
        return f"{name} += {other};" if self.kind == "sum" else f"{name} = fmaxf({name}, {other});"

    @property
    def step(self) -> str:
        """The statement that takes in row `j`."""
        at = "(i / n2 * n1 + j) * n2 + i % n2" if self.middle else "j * n1 + i"
        return self.taken("sum", self.term.replace("AT", at))

    def head(self, grid: str, block: str) -> str:
        """Launch line and signature."""
        return (
            f"// assay: launch KERNEL grid=({grid}) block=({block}) args=({arguments(('x',), self.sizes)})\n"
            f"__global__ void KERNEL({parameters(('x',), self.sizes)})\n"
        )


def _block(one: _Columns) -> Style:
    text = f"""\
{one.head(one.count, "256")}{{
    __shared__ float part[256];
    int i = blockIdx.x;
    float sum = {one.start};
    for (int j = threadIdx.x; j < {one.extent}; j += 256) {{
        {one.step}
    }}
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {{
        if (threadIdx.x < half) {{
            {one.taken("part[threadIdx.x]", "part[threadIdx.x + half]")}
        }}
        __syncthreads();
    }}
    sum = part[0];
    if (threadIdx.x == 0) {{
        out[i] = {one.result};
    }}
}}
"""
    flaws = (
        Flaw("wrong formula", *one.mistake, _WRONG),
        Flaw("barrier missing", "        __syncthreads();\n    }\n", "    }\n", _WRONG),
        Flaw("most of the block left out", "half = 128", "half = 16", _WRONG),
    )
    return Style(one.name, "a block an answer", text, flaws)


def _thread(one: _Columns) -> Style:
    text = f"""\
{one.head(f"ceil_div({one.count}, 256)", "256")}{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < {one.count}) {{
        float sum = {one.start};
        for (int j = 0; j < {one.extent}; j++) {{
            {one.step}
        }}
        out[i] = {one.result};
    }}
}}
"""
    flaws = (
        Flaw("wrong formula", *one.mistake, _WRONG),
        Flaw("no guard", f"if (i < {one.count}) ", "", _BAD_ACCESS),
        Flaw("last row left out", f"j < {one.extent};", f"j < {one.extent} - 1;", _WRONG),
        Flaw("starts at row 1", "int j = 0;", "int j = 1;", _WRONG),
    )
    return Style(one.name, "a thread an answer", text, flaws)


def _tiles(one: _Columns) -> Style:
    text = f"""\
{one.head(f"ceil_div({one.count}, 32)", "32, 8")}{{
    __shared__ float part[8][32];
    int i = blockIdx.x * 32 + threadIdx.x;
    float sum = {one.start};
    if (i < {one.count}) {{
        for (int j = threadIdx.y; j < {one.extent}; j += 8) {{
            {one.step}
        }}
    }}
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && i < {one.count}) {{
        for (int k = 1; k < 8; k++) {{
            {one.taken("sum", "part[k][threadIdx.x]")}
        }}
        out[i] = {one.result};
    }}
}}
"""
    flaws = (
        Flaw("barrier missing", "    __syncthreads();\n", "", _WRONG),
        Flaw("only seven of eight rows", "k < 8", "k < 7", _WRONG),
        Flaw("no guard", f"    if (i < {one.count}) {{", "    {", _BAD_ACCESS),
    )
    return Style(one.name, "tiles of 32 answers", text, flaws)


_FAMILIES: Final = (
    _Columns("column_sum", "The sum of each column", "torch.sum(x, 0)", "x[AT]"),
    _Columns("column_max", "The largest of each column", "torch.amax(x, 0)", "x[AT]", kind="max"),
    _Columns(
        "column_norm",
        "The 2-norm of each column",
        "torch.sqrt(torch.sum(torch.square(x), 0))",
        "x[AT] * x[AT]",
        "sqrtf(sum)",
        mistake=("sqrtf(sum)", "sum"),
    ),
    _Columns(
        "column_mean", "The mean of each column", "torch.mean(x, 0)", "x[AT]", "sum / n0", mistake=("/ n0", "/ n1")
    ),
    _Columns("middle_sum", "The sum over the middle axis", "torch.sum(x, 1)", "x[AT]", middle=True),
    _Columns("middle_max", "The largest along the middle axis", "torch.amax(x, 1)", "x[AT]", kind="max", middle=True),
)


def _shapes(one: _Columns) -> tuple[Shapes, ...]:
    if one.middle:
        return ({"x": (5, 60, 70)}, {"x": (12, 100, 130)}, {"x": (3, 33, 65)})
    return ({"x": (100, 70)}, {"x": (401, 300)}, {"x": (65, 257)})


FAMILIES: Final = tuple(
    Family(
        one.name,
        one.title,
        one.expression,
        _shapes(one),
        ("n0", "n2") if one.middle else ("n1",),
        (_block(one), _thread(one), _tiles(one)),
    )
    for one in _FAMILIES
)
