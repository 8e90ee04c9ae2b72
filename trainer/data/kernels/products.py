"""Products of matrices: rows by lanes, columns by lanes, tiles in shared memory, tiles in registers."""

from dataclasses import dataclass
from typing import Final

from common.contract import Status
from trainer.data.kernels.family import Family, Shapes, arguments, parameters
from trainer.data.kernels.style import Flaw, Style

_WRONG, _BAD_ACCESS = Status.INCORRECT, Status.RUNTIME_ERROR


@dataclass(frozen=True)
class _Product:
    """`out[row][col]` is the sum over `k` of `left` times `right`, C over those three names."""

    name: str
    title: str
    expression: str
    shapes: tuple[Shapes, ...]
    sizes: tuple[str, ...]
    rows: str
    columns: str
    depth: str
    left: str
    right: str
    end: str = "sum"
    """C: what becomes of the sum."""
    batched: bool = False
    """Whether there is a product for each of `n0`, by blockIdx.z."""

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(self.shapes[0])

    def head(self, across: str, down: str, block: str) -> str:
        """Launch line and signature."""
        grid = f"{across}, {down}, n0" if self.batched else f"{across}, {down}"
        return (
            f"// assay: launch KERNEL grid=({grid}) block=({block}) args=({arguments(self.tensors, self.sizes)})\n"
            f"__global__ void KERNEL({parameters(self.tensors, self.sizes)})\n"
        )

    @property
    def place(self) -> str:
        """Where the answer goes."""
        first = f"blockIdx.z * {self.rows} * {self.columns} + " if self.batched else ""
        return f"out[{first}row * {self.columns} + col]"

    @property
    def inside(self) -> str:
        """Whether there is such an answer."""
        return f"row < {self.rows} && col < {self.columns}"


def _at(place: str, row: str, k: str, col: str) -> str:
    words = {"row": row, "k": k, "col": col}
    out, word = "", ""
    for sign in f"{place}\0":
        if sign.isalnum() or sign in "_.":
            word += sign
            continue
        out += words.get(word, word) + sign
        word = ""
    return out[:-1]


def _direct(one: _Product, name: str, across: str, lanes: tuple[str, str]) -> Style:
    down = one.columns if across == one.rows else one.rows
    text = f"""\
{one.head(f"ceil_div({across}, 32)", f"ceil_div({down}, 8)", "32, 8")}{{
    int {lanes[0]} = blockIdx.x * 32 + threadIdx.x;
    int {lanes[1]} = blockIdx.y * 8 + threadIdx.y;
    if ({one.inside}) {{
        float sum = 0.0f;
        for (int k = 0; k < {one.depth}; k++) {{
            sum += {one.left} * {one.right};
        }}
        {one.place} = {one.end};
    }}
}}
"""
    flaws = (
        Flaw("sum not kept", "sum += ", "sum = ", _WRONG),
        Flaw("no guard", f"if ({one.inside}) ", "", _BAD_ACCESS),
        *_exchanged(one),
        Flaw("last term left out", f"k < {one.depth};", f"k < {one.depth} - 1;", _WRONG),
    )
    return Style(one.name, name, text, flaws)


def _exchanged(one: _Product) -> tuple[Flaw, ...]:
    """Of a square answer this is no flaw."""
    if one.rows == one.columns:
        return ()
    return (Flaw("rows for columns", f"row * {one.columns} + col]", f"row * {one.rows} + col]", _WRONG),)


def _tiles(one: _Product, height: int) -> Style:
    """`height`: answers of each thread, one below another in steps of 16."""
    tall = 16 * height
    each = f"for (int p = 0; p < {height}; p++) {{"
    left = _at(one.left, "down", "across", "col")
    right = _at(one.right, "row", "below", "col")
    text = f"""\
{one.head(f"ceil_div({one.columns}, 16)", f"ceil_div({one.rows}, {tall})", "16, 16")}{{
    __shared__ float lefts[{tall}][17];
    __shared__ float rights[16][16];
    int col = blockIdx.x * 16 + threadIdx.x;
    float sums[{height}] = {{}};
    for (int start = 0; start < {one.depth}; start += 16) {{
        int across = start + threadIdx.x;
        int below = start + threadIdx.y;
        {each}
            int down = blockIdx.y * {tall} + p * 16 + threadIdx.y;
            lefts[p * 16 + threadIdx.y][threadIdx.x] = down < {one.rows} && across < {one.depth} ? {left} : 0.0f;
        }}
        rights[threadIdx.y][threadIdx.x] = below < {one.depth} && col < {one.columns} ? {right} : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; k++) {{
            float factor = rights[k][threadIdx.x];
            {each}
                sums[p] += lefts[p * 16 + threadIdx.y][k] * factor;
            }}
        }}
        __syncthreads();
    }}
    {each}
        int row = blockIdx.y * {tall} + p * 16 + threadIdx.y;
        float sum = sums[p];
        if ({one.inside}) {{
            {one.place} = {one.end};
        }}
    }}
}}
"""
    flaws = (
        Flaw("barrier missing before reading", "        __syncthreads();\n        for", "        for", _WRONG),
        Flaw(
            "barrier missing after reading",
            "        }\n        __syncthreads();\n    }\n",
            "        }\n    }\n",
            _WRONG,
        ),
        Flaw("tile not padded with zeros", f" && across < {one.depth} ?", " ?", _WRONG),
        Flaw("half of the tile", "k < 16", "k < 8", _WRONG),
    )
    return Style(one.name, "shared tiles" if height == 1 else "register tiles", text, flaws)


def _family(one: _Product) -> Family:
    styles = (
        _direct(one, "rows by lanes", one.rows, ("row", "col")),
        _direct(one, "columns by lanes", one.columns, ("col", "row")),
        _tiles(one, 1),
        _tiles(one, 4),
    )
    out = ("n0", one.rows, one.columns) if one.batched else (one.rows, one.columns)
    return Family(one.name, one.title, one.expression, one.shapes, out, styles)


_DIMS: Final = ((40, 50, 60), (130, 97, 150), (33, 65, 17))


def _plain(a: str = "mk", b: str = "kn", **more: str) -> tuple[Shapes, ...]:
    """`mk`: extents by letter, of the dimensions above."""
    found = []
    for dims in _DIMS:
        named = dict(zip("mkn", dims, strict=True))
        found.append({name: tuple(named[axis] for axis in axes) for name, axes in {"a": a, "b": b, **more}.items()})
    return tuple(found)


_THREE: Final = ("n0", "n1", "n2")
_LEFT, _RIGHT = "a[row * n1 + k]", "b[k * n2 + col]"

FAMILIES: Final = tuple(
    _family(one)
    for one in (
        _Product(
            "product_relu",
            "A product of matrices and its ReLU, fused",
            "torch.relu(a @ b)",
            _plain(),
            _THREE,
            "n0",
            "n2",
            "n1",
            _LEFT,
            _RIGHT,
            "fmaxf(sum, 0.0f)",
        ),
        _Product(
            "product_bias",
            "A product of matrices and a bias for each column",
            "a @ b + bias",
            _plain(bias="n"),
            _THREE,
            "n0",
            "n2",
            "n1",
            _LEFT,
            _RIGHT,
            "sum + bias[col]",
        ),
        _Product(
            "product_transposed_right",
            "A matrix times a transposed one",
            "torch.matmul(a, torch.transpose(b, 0, 1))",
            _plain(b="nk"),
            _THREE,
            "n0",
            "n2",
            "n1",
            _LEFT,
            "b[col * n1 + k]",
        ),
        _Product(
            "product_transposed_left",
            "A transposed matrix times another",
            "torch.matmul(torch.transpose(a, 0, 1), b)",
            _plain(a="km"),
            _THREE,
            "n1",
            "n2",
            "n0",
            "a[k * n1 + row]",
            _RIGHT,
        ),
        _Product(
            "gram",
            "A matrix times itself transposed",
            "torch.matmul(a, torch.transpose(a, 0, 1))",
            tuple({"a": (m, k)} for m, k, _ in _DIMS),
            ("n0", "n1"),
            "n0",
            "n0",
            "n1",
            _LEFT,
            "a[col * n1 + k]",
        ),
        _Product(
            "batched_product",
            "Products of matrices, one for each of a batch",
            "torch.bmm(a, b)",
            (
                {"a": (4, 40, 50), "b": (4, 50, 60)},
                {"a": (7, 65, 97), "b": (7, 97, 130)},
                {"a": (3, 33, 17), "b": (3, 17, 65)},
            ),
            ("n0", "n1", "n2", "n3"),
            "n1",
            "n3",
            "n2",
            "a[(blockIdx.z * n1 + row) * n2 + k]",
            "b[(blockIdx.z * n2 + k) * n3 + col]",
            batched=True,
        ),
    )
)
