"""Element-wise problems: guarded, with a grid-stride loop, with float4."""

from dataclasses import dataclass
from typing import Final

from common.contract import Status
from trainer.data.kernels.style import Flaw, Style


@dataclass(frozen=True)
class _Map:
    """An element-wise problem: its parameters, the tensors that it reads, the one that it writes, and one element."""

    problem: str
    signature: str
    arguments: str
    reads: tuple[str, ...]
    writes: str
    element: str
    """The element's value, of `{a}`, `{b}`: elements of the tensors that are read."""
    mistake: tuple[str, str]
    """A part of `element`, and what is written in its place by mistake."""
    count: str = "n"

    def at(self, index: str, element: str | None = None) -> str:
        """The value at an index."""
        return (element or self.element).format(**{name: f"{name}[{index}]" for name in self.reads})


_MAPS: Final = (
    _Map(
        "vector_add",
        "const float* a, const float* b, float* c, int n",
        "a, b, c, n",
        ("a", "b"),
        "c",
        "{a} + {b}",
        (" + ", " - "),
    ),
    _Map(
        "scalar_multiply",
        "const float* x, float* y, float alpha, int n",
        "x, y, alpha, n",
        ("x",),
        "y",
        "alpha * {x}",
        (" * ", " + "),
    ),
    _Map(
        "saxpy",
        "const float* x, const float* y, float* out, float alpha, int n",
        "x, y, out, alpha, n",
        ("x", "y"),
        "out",
        "alpha * {x} + {y}",
        (" + ", " - "),
    ),
    _Map(
        "relu",
        "const float* x, float* y, int n",
        "x, y, n",
        ("x",),
        "y",
        "fmaxf({x}, 0.0f)",
        ("fmaxf", "fminf"),
    ),
    _Map(
        "gelu",
        "const float* x, float* y, int n",
        "x, y, n",
        ("x",),
        "y",
        "0.5f * {x} * (1.0f + erff({x} * 0.70710678f))",
        ("erff", "tanhf"),
    ),
    _Map(
        "swiglu",
        "const float* gate, const float* up, float* y, int rows, int cols",
        "gate, up, y, rows, cols",
        ("gate", "up"),
        "y",
        "{gate} / (1.0f + expf(-{gate})) * {up}",
        ("expf(-", "expf("),
        count="rows * cols",
    ),
)


def _guarded(map_: _Map) -> Style:
    store = f"i] = {map_.at('i')};"
    wrong = f"i] = {map_.at('i', map_.element.replace(*map_.mistake))};"
    text = f"""\
// assay: launch KERNEL grid=(ceil_div({map_.count}, 256)) block=(256) args=({map_.arguments})
__global__ void KERNEL({map_.signature})
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < {map_.count}) {{
        {map_.writes}[{store}
    }}
}}
"""
    flaws = (
        Flaw("no guard", f"if (i < {map_.count}) ", "", Status.RUNTIME_ERROR),
        Flaw("guard off by one", f"if (i < {map_.count})", f"if (i <= {map_.count})", Status.RUNTIME_ERROR),
        Flaw("index within the block only", "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", Status.INCORRECT),
        Flaw("wrong formula", store, wrong, Status.INCORRECT),
        Flaw("grid of one block", f"grid=(ceil_div({map_.count}, 256))", "grid=(1)", Status.INCORRECT),
        Flaw("shifted index", f"[i] = {map_.at('i')}", f"[i] = {map_.at('i + 1')}", Status.RUNTIME_ERROR),
    )
    return Style(map_.problem, "guarded", text, flaws)


def _striding(map_: _Map) -> Style:
    text = f"""\
// assay: launch KERNEL grid=(min(ceil_div({map_.count}, 256), 1024)) block=(256) args=({map_.arguments})
__global__ void KERNEL({map_.signature})
{{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < {map_.count}; i += gridDim.x * blockDim.x) {{
        {map_.writes}[i] = {map_.at("i")};
    }}
}}
"""
    flaws = (
        Flaw("bound off by one", f"i < {map_.count};", f"i <= {map_.count};", Status.RUNTIME_ERROR),
        Flaw(
            "starts in each block anew", "blockIdx.x * blockDim.x + threadIdx.x; ", "blockIdx.x; ", Status.INCORRECT
        ),
        Flaw("short stride missing", "i += gridDim.x * blockDim.x", "i += n_threads", Status.COMPILE_ERROR),
    )
    return Style(map_.problem, "grid stride", text, flaws)


def _four(map_: _Map) -> Style:
    parts = ", ".join(
        map_.element.format(**{name: f"{name}4.{part}" for name in map_.reads}) for part in ("x", "y", "z", "w")
    )
    loads = "\n".join(f"        float4 {name}4 = ((const float4*){name})[i];" for name in map_.reads)
    text = f"""\
// assay: launch KERNEL grid=(ceil_div(ceil_div({map_.count}, 4), 256)) block=(256) args=({map_.arguments})
__global__ void KERNEL({map_.signature})
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int count = {map_.count};
    if (i * 4 + 3 < count) {{
{loads}
        ((float4*){map_.writes})[i] = make_float4({parts});
    }} else {{
        for (int j = i * 4; j < count; j++) {{
            {map_.writes}[j] = {map_.at("j")};
        }}
    }}
}}
"""
    tail = text[text.index(" else") : text.rindex("\n}")]
    flaws = (
        Flaw("no tail", tail, "", Status.INCORRECT),
        Flaw("guard of the first only", "i * 4 + 3 < count", "i * 4 < count", Status.RUNTIME_ERROR),
        Flaw("tail bound off by one", "j < count", "j <= count", Status.RUNTIME_ERROR),
    )
    return Style(map_.problem, "float4", text, flaws)


STYLES: Final = tuple(write(each) for each in _MAPS for write in (_guarded, _striding, _four))
