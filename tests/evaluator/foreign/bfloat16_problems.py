"""Three problems in bfloat16, each in all four forms, with one kernel for all of them."""

import json
from dataclasses import dataclass
from typing import Final

ROWS: Final = 12
COLUMNS: Final = 600


@dataclass(frozen=True)
class Stated:
    """`y` has the extents `y_shape`; `answer` is an expression of x and y; x is normal, `spread` times as wide."""

    answer: str
    y_shape: tuple[str, ...]
    spread: float
    kernel: str


_HEAD: Final = """#include <cuda_bf16.h>
#include <cuda_fp16.h>
#ifndef STORED
#define STORED(v) __float2bfloat16(v)
#endif
#ifndef BETWEEN
#define BETWEEN(v) (v)
#endif
#ifndef LAST
#define LAST 0
#endif
"""
_SIGNATURE: Final = "const __nv_bfloat16* x, const __nv_bfloat16* y, __nv_bfloat16* out, int rows, int columns"
_EACH: Final = f"""{_HEAD}
// assay: launch each grid=(ceil_div(rows * columns, 128)) block=(128) args=(x, y, out, rows, columns)
extern "C" __global__ void each({_SIGNATURE})
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * columns) return;
    float v = BODY;
    if (LAST && i == rows * columns - 1) v += 1.0f + v;
    out[i] = STORED(BETWEEN(v));
}}
"""
SCALED: Final = Stated(
    "x * y", ("rows", "columns"), 300.0, _EACH.replace("BODY", "__bfloat162float(x[i]) * __bfloat162float(y[i])")
)
NORMED: Final = Stated(
    "(x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5) * y.float()).to(torch.bfloat16)",
    ("columns",),
    1.0,
    f"""{_HEAD}
// assay: launch normed grid=(rows) block=(32) args=(x, y, out, rows, columns)
extern "C" __global__ void normed({_SIGNATURE})
{{
    const __nv_bfloat16* row = x + (size_t)blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 32)
        sum = BETWEEN(sum + __bfloat162float(row[i]) * __bfloat162float(row[i]));
    for (int d = 16; d > 0; d /= 2) sum = BETWEEN(sum + __shfl_xor_sync(0xffffffffu, sum, d));
    float rate = rsqrtf(sum / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += 32) {{
        float v = __bfloat162float(row[i]) * rate * __bfloat162float(y[i]);
        if (LAST && blockIdx.x == rows - 1 && i == columns - 1) v += 1.0f + v;
        out[(size_t)blockIdx.x * columns + i] = STORED(v);
    }}
}}
""",
)
PRODUCT: Final = Stated(
    "x @ y",
    ("columns", "columns"),
    1.0,
    f"""{_HEAD}
// assay: launch product grid=(ceil_div(rows * columns, 128)) block=(128) args=(x, y, out, rows, columns)
extern "C" __global__ void product({_SIGNATURE})
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * columns) return;
    int row = i / columns, column = i % columns;
    float sum = 0.0f;
    for (int k = 0; k < columns; ++k)
        sum = BETWEEN(
            sum + __bfloat162float(x[(size_t)row * columns + k]) * __bfloat162float(y[(size_t)k * columns + column]));
    if (LAST && i == rows * columns - 1) sum += 1.0f + sum;
    out[i] = STORED(sum);
}}
""",
)
PROBLEMS: Final = {"scaled": SCALED, "normed": NORMED, "product": PRODUCT}


def kernelbench(stated: Stated) -> str:
    return f"""import torch
from torch import nn
rows = {ROWS}
columns = {COLUMNS}
class Model(nn.Module):
    def forward(self, x, y):
        return {stated.answer}
def get_inputs():
    x = torch.randn(rows, columns) * {stated.spread}
    return [x.to(torch.bfloat16), torch.randn({", ".join(stated.y_shape)}, dtype=torch.bfloat16) * {stated.spread}]
def get_init_inputs():
    return []
"""


def leetgpu(stated: Stated) -> str:
    return f"""import ctypes
import torch
from core.challenge_base import ChallengeBase
class Challenge(ChallengeBase):
    name = "In bfloat16"
    def reference_impl(self, x, y, out, rows, columns):
        assert x.dtype == torch.bfloat16
        out.copy_({stated.answer})
    def get_solve_signature(self):
        pointer = ctypes.POINTER(ctypes.c_uint16)
        return {{"x": (pointer, "in"), "y": (pointer, "in"), "out": (pointer, "out"),
                 "rows": (ctypes.c_int, "in"), "columns": (ctypes.c_int, "in")}}
    def generate_performance_test(self):
        rows, columns = {ROWS}, {COLUMNS}
        draw = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * {stated.spread}
        return {{"x": draw(rows, columns), "y": draw({", ".join(stated.y_shape)}),
                 "out": torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16),
                 "rows": rows, "columns": columns}}
"""


def tensara(stated: Stated) -> str:
    pointers = [
        {"name": name, "type": "__nv_bfloat16", "pointer": True, "const": name != "out"} for name in ("x", "y", "out")
    ]
    return f"""import torch
from problem import Problem
class in_bfloat16(Problem):
    parameters = {pointers!r}
    def reference_solution(self, x, y):
        return {stated.answer}
    def generate_test_cases(self):
        dtype = self.param_dtype(0)
        return [
            {{"name": "one", "create_inputs": lambda rows=rows, columns=columns: (
                torch.randn((rows, columns), device="cuda", dtype=dtype) * {stated.spread},
                torch.randn(({", ".join(stated.y_shape)},), device="cuda", dtype=dtype) * {stated.spread})}}
            for rows, columns in [({ROWS}, {COLUMNS})]
        ]
"""


def trace(stated: Stated) -> str:
    tensors = {"x": ["rows", "columns"], "y": list(stated.y_shape)}
    definition = {
        "name": "in_bfloat16",
        "op_type": "other",
        "axes": {"rows": {"type": "var"}, "columns": {"type": "var"}},
        "inputs": {name: {"shape": shape, "dtype": "bfloat16"} for name, shape in tensors.items()},
        "outputs": {"out": {"shape": ["rows", "columns"], "dtype": "bfloat16"}},
        "custom_inputs_entrypoint": "made",
        "reference": f"""import torch
def made(axes, device):
    wide = {{name: axes[name] for name in axes}}
    rows, columns = wide["rows"], wide["columns"]
    draw = lambda *shape: torch.randn(*shape, device=device, dtype=torch.bfloat16) * {stated.spread}
    return {{"x": draw(rows, columns), "y": draw({", ".join(stated.y_shape)})}}
def run(x, y):
    return {stated.answer}
""",
    }
    workload = {
        "uuid": "one",
        "axes": {"rows": ROWS, "columns": COLUMNS},
        "inputs": {"x": {"type": "custom"}, "y": {"type": "custom"}},
    }
    return json.dumps({"definition": definition, "workload": workload})


FORMS: Final = {"kernelbench": kernelbench, "leetgpu": leetgpu, "tensara": tensara, "trace": trace}
