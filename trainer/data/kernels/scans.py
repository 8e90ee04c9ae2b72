"""Running sums along an axis: a thread a line, a block a line in shared memory, a warp a line with shuffles."""

from dataclasses import dataclass
from typing import Final

from common.contract import Status
from trainer.data.kernels.family import Family, arguments, parameters
from trainer.data.kernels.style import Flaw, Style

_WRONG, _BAD_ACCESS = Status.INCORRECT, Status.RUNTIME_ERROR
_SIZES: Final = ("n0", "n1")


@dataclass(frozen=True)
class _Scan:
    """Line `i` has the elements `j`, which stand at `place`; `term` is C with `AT` for that."""

    name: str
    title: str
    expression: str
    term: str = "x[AT]"
    place: str = "i * n1 + j"
    lines: str = "n0"
    extent: str = "n1"

    @property
    def read(self) -> str:
        """The term of element `j`."""
        return self.term.replace("AT", self.place)

    def head(self, grid: str, block: str) -> str:
        """Launch line and signature."""
        return (
            f"// assay: launch KERNEL grid=({grid}) block=({block}) args=({arguments(('x',), _SIZES)})\n"
            f"__global__ void KERNEL({parameters(('x',), _SIZES)})\n"
        )


def _thread(one: _Scan) -> Style:
    text = f"""\
{one.head(f"ceil_div({one.lines}, 256)", "256")}{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < {one.lines}) {{
        float sum = 0.0f;
        for (int j = 0; j < {one.extent}; j++) {{
            sum += {one.read};
            out[{one.place}] = sum;
        }}
    }}
}}
"""
    flaws = (
        Flaw("not running", "sum += ", "sum = ", _WRONG),
        Flaw("no guard", f"if (i < {one.lines}) ", "", _BAD_ACCESS),
        Flaw("last one left out", f"j < {one.extent};", f"j < {one.extent} - 1;", _WRONG),
    )
    return Style(one.name, "a thread a line", text, flaws)


def _block(one: _Scan) -> Style:
    text = f"""\
{one.head(one.lines, "256")}{{
    __shared__ float part[256];
    int i = blockIdx.x;
    float carry = 0.0f;
    for (int start = 0; start < {one.extent}; start += 256) {{
        int j = start + threadIdx.x;
        part[threadIdx.x] = j < {one.extent} ? {one.read} : 0.0f;
        __syncthreads();
        for (int offset = 1; offset < 256; offset *= 2) {{
            float before = threadIdx.x >= offset ? part[threadIdx.x - offset] : 0.0f;
            __syncthreads();
            part[threadIdx.x] += before;
            __syncthreads();
        }}
        if (j < {one.extent}) {{
            out[{one.place}] = carry + part[threadIdx.x];
        }}
        carry += part[255];
        __syncthreads();
    }}
}}
"""
    flaws = (
        Flaw("scan stops early", "offset < 256;", "offset < 32;", _WRONG),
        Flaw("barrier missing", "            __syncthreads();\n            part", "            part", _WRONG),
        Flaw("no guard", f"        if (j < {one.extent}) {{", "        {", _BAD_ACCESS),
    )
    return Style(one.name, "a block a line", text, flaws)


def _warp(one: _Scan) -> Style:
    text = f"""\
{one.head(f"ceil_div({one.lines}, 8)", "32, 8")}{{
    int i = blockIdx.x * 8 + threadIdx.y;
    if (i >= {one.lines}) return;
    float carry = 0.0f;
    for (int start = 0; start < {one.extent}; start += 32) {{
        int j = start + threadIdx.x;
        float sum = j < {one.extent} ? {one.read} : 0.0f;
        for (int offset = 1; offset < 32; offset *= 2) {{
            float before = __shfl_up_sync(0xffffffff, sum, offset);
            if (threadIdx.x >= offset) {{
                sum += before;
            }}
        }}
        sum += carry;
        if (j < {one.extent}) {{
            out[{one.place}] = sum;
        }}
        carry = __shfl_sync(0xffffffff, sum, 31);
    }}
}}
"""
    flaws = (
        Flaw("carry left out", "        sum += carry;\n", "", _WRONG),
        Flaw("first lanes too", "if (threadIdx.x >= offset) ", "", _WRONG),
        Flaw("no guard", f"    if (i >= {one.lines}) return;\n", "", _BAD_ACCESS),
    )
    return Style(one.name, "a warp a line", text, flaws)


_DOWN: Final = {"place": "j * n1 + i", "lines": "n1", "extent": "n0"}
_SCANS: Final = (
    _Scan("row_scan", "The running sum of each row", "torch.cumsum(x, 1)"),
    _Scan(
        "row_scan_squares",
        "The running sum of squares of each row",
        "torch.cumsum(torch.square(x), 1)",
        "x[AT] * x[AT]",
    ),
    _Scan(
        "row_scan_back",
        "The sum of what is left of each row",
        "torch.flip(torch.cumsum(torch.flip(x, (1,)), 1), (1,))",
        place="i * n1 + n1 - 1 - j",
    ),
    _Scan("column_scan", "The running sum of each column", "torch.cumsum(x, 0)", **_DOWN),
    _Scan(
        "column_scan_absolute",
        "The running sum of absolute values of each column",
        "torch.cumsum(torch.abs(x), 0)",
        "fabsf(x[AT])",
        **_DOWN,
    ),
)

FAMILIES: Final = tuple(
    Family(
        one.name,
        one.title,
        one.expression,
        tuple({"x": shape} for shape in ((60, 300), (401, 290), (33, 65))),
        ("n0", "n1"),
        # Down the columns a thread a line is coalesced, and a warp is not: the ladder goes the other way.
        tuple(make(one) for make in ((_thread, _block, _warp) if one.lines == "n0" else (_block, _warp, _thread))),
    )
    for one in _SCANS
)
