"""Transpositions: reads down the columns, writes down the columns, tiles in shared memory, padded tiles."""

from dataclasses import dataclass
from typing import Final

from common.contract import Status
from trainer.data.kernels.family import Family, arguments, parameters
from trainer.data.kernels.style import Flaw, Style

_WRONG, _BAD_ACCESS = Status.INCORRECT, Status.RUNTIME_ERROR


@dataclass(frozen=True)
class _Transposition:
    """`VALUE` in `element` is the element that moves; `batched`: the last two of three axes are exchanged."""

    name: str
    title: str
    expression: str
    element: str
    batched: bool = False

    @property
    def sizes(self) -> tuple[str, ...]:
        return ("n0", "n1", "n2") if self.batched else ("n0", "n1")

    @property
    def rows(self) -> str:
        return self.sizes[-2]

    @property
    def columns(self) -> str:
        return self.sizes[-1]

    def head(self, across: str, down: str, block: str) -> str:
        """Launch line and signature."""
        grid = f"{across}, {down}, n0" if self.batched else f"{across}, {down}"
        return (
            f"// assay: launch KERNEL grid=({grid}) block=({block}) args=({arguments(('x',), self.sizes)})\n"
            f"__global__ void KERNEL({parameters(('x',), self.sizes)})\n"
        )

    @property
    def read(self) -> str:
        """The element in its place."""
        return f"x[{self._first}row * {self.columns} + col]"

    @property
    def write(self) -> str:
        """Its place in the answer."""
        return f"out[{self._first}col * {self.rows} + row]"

    @property
    def _first(self) -> str:
        return "blockIdx.z * n1 * n2 + " if self.batched else ""

    @property
    def inside(self) -> str:
        """Whether there is such an element."""
        return f"row < {self.rows} && col < {self.columns}"

    def of(self, value: str) -> str:
        """What becomes of an element."""
        return self.element.replace("VALUE", value)


def _direct(one: _Transposition, name: str, across: str, lanes: tuple[str, str]) -> Style:
    down = one.columns if across == one.rows else one.rows
    text = f"""\
{one.head(f"ceil_div({across}, 32)", f"ceil_div({down}, 8)", "32, 8")}{{
    int {lanes[0]} = blockIdx.x * blockDim.x + threadIdx.x;
    int {lanes[1]} = blockIdx.y * blockDim.y + threadIdx.y;
    if ({one.inside}) {{
        {one.write} = {one.of(one.read)};
    }}
}}
"""
    right = f"col * {one.rows} + row"
    flaws = (
        Flaw("not transposed", right, f"row * {one.columns} + col", _WRONG),
        Flaw("rows for columns", right, f"col * {one.columns} + row", _WRONG),
        Flaw("no guard", f"if ({one.inside}) ", "", _BAD_ACCESS),
        Flaw("guard of the rows only", f"({one.inside})", f"(row < {one.rows})", _WRONG),
    )
    return Style(one.name, name, text, flaws)


def _tile(one: _Transposition, width: int) -> Style:
    text = f"""\
{one.head(f"ceil_div({one.columns}, 32)", f"ceil_div({one.rows}, 32)", "32, 8")}{{
    __shared__ float tile[32][{width}];
    int col = blockIdx.x * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {{
        int row = blockIdx.y * 32 + j;
        if ({one.inside}) {{
            tile[j][threadIdx.x] = {one.read};
        }}
    }}
    __syncthreads();
    int row = blockIdx.y * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {{
        int col = blockIdx.x * 32 + j;
        if ({one.inside}) {{
            {one.write} = {one.of("tile[threadIdx.x][j]")};
        }}
    }}
}}
"""
    flaws = (
        Flaw("barrier missing", "    __syncthreads();\n", "", _WRONG),
        Flaw("tile not transposed", "tile[threadIdx.x][j]", "tile[j][threadIdx.x]", _WRONG),
        Flaw("a quarter of the tile", "j < 32; j += 8", "j < 8; j += 8", _WRONG),
    )
    return Style(one.name, "a tile" if width == 32 else "a padded tile", text, flaws)


def _family(one: _Transposition) -> Family:
    shapes = ((4, 60, 70), (9, 100, 130), (3, 33, 65)) if one.batched else ((70, 130), (401, 300), (65, 33))
    out = ("n0", "n2", "n1") if one.batched else ("n1", "n0")
    styles = (
        _direct(one, "reads down the columns", one.rows, ("row", "col")),
        _direct(one, "writes down the columns", one.columns, ("col", "row")),
        _tile(one, 32),
        _tile(one, 33),
    )
    return Family(one.name, one.title, one.expression, tuple({"x": shape} for shape in shapes), out, styles)


FAMILIES: Final = tuple(
    _family(one)
    for one in (
        _Transposition(
            "doubled_transpose", "A matrix transposed and doubled", "2 * torch.transpose(x, 0, 1)", "2.0f * VALUE"
        ),
        _Transposition(
            "exp_transpose", "Exponentials, transposed", "torch.exp(torch.transpose(x, 0, 1))", "expf(VALUE)"
        ),
        _Transposition(
            "batched_transpose",
            "Matrices transposed, one minus each",
            "1 - torch.permute(x, (0, 2, 1))",
            "1.0f - VALUE",
            batched=True,
        ),
    )
)
