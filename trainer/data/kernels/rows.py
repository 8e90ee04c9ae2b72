"""Problems that work on the rows of a matrix: a thread a row, a warp a row."""

from typing import Final

from common.contract import Status
from trainer.data.kernels.style import Flaw, Style

_WRONG, _BAD_ACCESS = Status.INCORRECT, Status.RUNTIME_ERROR

_WARP_SUM = """\
    for (int mask = 16; mask > 0; mask /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
    }
"""
_ONE_TERM = "sum += x[i * cols + j];"
_WARP_HEAD = """\
    int i = blockIdx.x * 8 + threadIdx.y;
    if (i >= rows) return;
    float sum = 0.0f;
"""


def _rows(problem: str, signature: str, arguments: str, first: str, second: str, flaws: tuple[Flaw, ...]) -> Style:
    """A warp a row: `first` adds up one term, `second` follows the sum over the row."""
    text = f"""\
// assay: launch KERNEL grid=(ceil_div(rows, 8)) block=(32, 8) args=({arguments})
__global__ void KERNEL({signature})
{{
{_WARP_HEAD}    for (int j = threadIdx.x; j < cols; j += 32) {{
        {first}
    }}
{_WARP_SUM}{second}}}
"""
    common = (
        Flaw("no guard", "    if (i >= rows) return;\n", "", _BAD_ACCESS),
        Flaw("starts at the row, not the lane", "int j = threadIdx.x;", "int j = threadIdx.y;", _WRONG),
        Flaw("not summed over the warp", _WARP_SUM, "", _WRONG),
    )
    return Style(problem, "a warp a row", text, (*common, *flaws))


_ROW_SUM = """\
// assay: launch KERNEL grid=(ceil_div(rows, 256)) block=(256) args=(x, y, rows, cols)
__global__ void KERNEL(const float* x, float* y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) {
        float sum = 0.0f;
        for (int j = 0; j < cols; j++) {
            sum += x[i * cols + j];
        }
        y[i] = sum;
    }
}
"""

_SOFTMAX = """\
// assay: launch KERNEL grid=(ceil_div(rows, 256)) block=(256) args=(x, y, rows, cols)
__global__ void KERNEL(const float* x, float* y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) {
        float top = x[i * cols];
        for (int j = 1; j < cols; j++) {
            top = fmaxf(top, x[i * cols + j]);
        }
        float sum = 0.0f;
        for (int j = 0; j < cols; j++) {
            sum += expf(x[i * cols + j] - top);
        }
        for (int j = 0; j < cols; j++) {
            y[i * cols + j] = expf(x[i * cols + j] - top) / sum;
        }
    }
}
"""

_SOFTMAX_WARP = f"""\
// assay: launch KERNEL grid=(ceil_div(rows, 8)) block=(32, 8) args=(x, y, rows, cols)
__global__ void KERNEL(const float* x, float* y, int rows, int cols)
{{
{_WARP_HEAD}    float top = x[i * cols];
    for (int j = threadIdx.x; j < cols; j += 32) {{
        top = fmaxf(top, x[i * cols + j]);
    }}
    for (int mask = 16; mask > 0; mask /= 2) {{
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, mask));
    }}
    for (int j = threadIdx.x; j < cols; j += 32) {{
        sum += expf(x[i * cols + j] - top);
    }}
{_WARP_SUM}    for (int j = threadIdx.x; j < cols; j += 32) {{
        y[i * cols + j] = expf(x[i * cols + j] - top) / sum;
    }}
}}
"""

_RMS_SECOND = """\
    float scale = rsqrtf(sum / cols + eps);
    for (int j = threadIdx.x; j < cols; j += 32) {
        y[i * cols + j] = x[i * cols + j] * scale * weight[j];
    }
"""

_LAYER_SECOND = f"""\
    float mean = sum / cols;
    sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 32) {{
        float d = x[i * cols + j] - mean;
        sum += d * d;
    }}
{_WARP_SUM}    float scale = rsqrtf(sum / cols + eps);
    for (int j = threadIdx.x; j < cols; j += 32) {{
        y[i * cols + j] = (x[i * cols + j] - mean) * scale * weight[j] + bias[j];
    }}
"""

STYLES: Final = (
    Style(
        "row_sum",
        "a thread a row",
        _ROW_SUM,
        (
            Flaw("no guard", "if (i < rows) ", "", _BAD_ACCESS),
            Flaw("guard off by one", "i < rows", "i <= rows", _BAD_ACCESS),
            Flaw("rows for columns", "x[i * cols + j]", "x[i * rows + j]", _WRONG),
            Flaw("last column left out", "j < cols;", "j < cols - 1;", _WRONG),
            Flaw("sum not cleared", "float sum = 0.0f;", "float sum;", _WRONG),
        ),
    ),
    _rows(
        "row_sum",
        "const float* x, float* y, int rows, int cols",
        "x, y, rows, cols",
        _ONE_TERM,
        "    if (threadIdx.x == 0) {\n        y[i] = sum;\n    }\n",
        (Flaw("launch line missing", "grid=(ceil_div(rows, 8)) block=(32, 8)", "grid=(rows) block=(256)", _WRONG),),
    ),
    Style(
        "softmax",
        "a thread a row",
        _SOFTMAX,
        (
            Flaw("no guard", "if (i < rows) ", "", _BAD_ACCESS),
            Flaw("maximum not subtracted", "float top = x[i * cols];", "float top = 0.0f;", _WRONG),
            Flaw("not divided", " - top) / sum", " - top)", _WRONG),
            Flaw("bound off by one", "j < cols;", "j <= cols;", _BAD_ACCESS),
        ),
    ),
    Style(
        "softmax",
        "a warp a row",
        _SOFTMAX_WARP,
        (
            Flaw("no guard", "    if (i >= rows) return;\n", "", _BAD_ACCESS),
            Flaw("sum not over the warp", _WARP_SUM, "", _WRONG),
            Flaw("not divided", " - top) / sum", " - top)", _WRONG),
        ),
    ),
    _rows(
        "rms_norm",
        "const float* x, const float* weight, float* y, float eps, int rows, int cols",
        "x, weight, y, eps, rows, cols",
        _ONE_TERM.replace("x[i * cols + j]", "x[i * cols + j] * x[i * cols + j]"),
        _RMS_SECOND,
        (
            Flaw("eps left out", "sum / cols + eps", "sum / cols", _WRONG),
            Flaw("not divided by cols", "sum / cols + eps", "sum + eps", _WRONG),
            Flaw("weight left out", " * weight[j]", "", _WRONG),
        ),
    ),
    _rows(
        "layer_norm",
        "const float* x, const float* weight, const float* bias, float* y, float eps, int rows, int cols",
        "x, weight, bias, y, eps, rows, cols",
        _ONE_TERM,
        _LAYER_SECOND,
        (
            Flaw("mean not divided", "mean = sum / cols", "mean = sum", _WRONG),
            Flaw("sum not cleared", "    sum = 0.0f;\n", "", _WRONG),
            Flaw("bias left out", " + bias[j]", "", _WRONG),
        ),
    ),
)
