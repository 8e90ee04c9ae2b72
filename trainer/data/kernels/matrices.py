"""Matrices: transposed, and multiplied with vectors and with each other."""

from typing import Final

from common.contract import Status
from trainer.data.kernels.style import Flaw, Style

_WRONG, _BAD_ACCESS = Status.INCORRECT, Status.RUNTIME_ERROR

_TRANSPOSE = """\
// assay: launch KERNEL grid=(ceil_div(cols, 32), ceil_div(rows, 8)) block=(32, 8) args=(x, y, rows, cols)
__global__ void KERNEL(const float* x, float* y, int rows, int cols)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) {
        y[col * rows + row] = x[row * cols + col];
    }
}
"""

_TRANSPOSE_TILE = """\
// assay: launch KERNEL grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8) args=(x, y, rows, cols)
__global__ void KERNEL(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32][33];
    int col = blockIdx.x * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        int row = blockIdx.y * 32 + j;
        if (row < rows && col < cols) {
            tile[j][threadIdx.x] = x[row * cols + col];
        }
    }
    __syncthreads();
    int row = blockIdx.y * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        int col = blockIdx.x * 32 + j;
        if (row < rows && col < cols) {
            y[col * rows + row] = tile[threadIdx.x][j];
        }
    }
}
"""

_MATVEC = """\
// assay: launch KERNEL grid=(ceil_div(m, 256)) block=(256) args=(a, x, y, m, k)
__global__ void KERNEL(const float* a, const float* x, float* y, int m, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) {
        float sum = 0.0f;
        for (int j = 0; j < k; j++) {
            sum += a[i * k + j] * x[j];
        }
        y[i] = sum;
    }
}
"""

_MATVEC_WARP = """\
// assay: launch KERNEL grid=(ceil_div(m, 8)) block=(32, 8) args=(a, x, y, m, k)
__global__ void KERNEL(const float* a, const float* x, float* y, int m, int k)
{
    int i = blockIdx.x * 8 + threadIdx.y;
    if (i >= m) return;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < k; j += 32) {
        sum += a[i * k + j] * x[j];
    }
    for (int mask = 16; mask > 0; mask /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
    }
    if (threadIdx.x == 0) {
        y[i] = sum;
    }
}
"""

_MATMUL = """\
// assay: launch KERNEL grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void KERNEL(const float* a, const float* b, float* c, int m, int n, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < m && col < n) {
        float sum = 0.0f;
        for (int j = 0; j < k; j++) {
            sum += a[row * k + j] * b[j * n + col];
        }
        c[row * n + col] = sum;
    }
}
"""

_MATMUL_TILE = """\
// assay: launch KERNEL grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void KERNEL(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float left[16][16];
    __shared__ float right[16][16];
    int col = blockIdx.x * 16 + threadIdx.x;
    int row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int start = 0; start < k; start += 16) {
        int p = start + threadIdx.x;
        int q = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && p < k ? a[row * k + p] : 0.0f;
        right[threadIdx.y][threadIdx.x] = q < k && col < n ? b[q * n + col] : 0.0f;
        __syncthreads();
        for (int j = 0; j < 16; j++) {
            sum += left[threadIdx.y][j] * right[j][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < m && col < n) {
        c[row * n + col] = sum;
    }
}
"""

_LINEAR_GELU = """\
// assay: launch KERNEL grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(x, weight, bias, y, m, n, k)
__global__ void KERNEL(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < m && col < n) {
        float sum = bias[col];
        for (int j = 0; j < k; j++) {
            sum += x[row * k + j] * weight[col * k + j];
        }
        y[row * n + col] = 0.5f * sum * (1.0f + erff(sum * 0.70710678f));
    }
}
"""

STYLES: Final = (
    Style(
        "transpose",
        "a thread an element",
        _TRANSPOSE,
        (
            Flaw("no guard", "if (row < rows && col < cols) ", "", _BAD_ACCESS),
            Flaw("guard of the columns missing", "row < rows && col < cols", "row < rows", _BAD_ACCESS),
            Flaw("written where it was read", "y[col * rows + row]", "y[row * cols + col]", _WRONG),
            Flaw("stride of the other side", "y[col * rows + row]", "y[col * cols + row]", _BAD_ACCESS),
            Flaw("grid the wrong way round", "ceil_div(cols, 32), ceil_div(rows, 8)", "ceil_div(rows, 8)", _WRONG),
        ),
    ),
    Style(
        "transpose",
        "a padded tile",
        _TRANSPOSE_TILE,
        (
            Flaw("tile not transposed", "tile[threadIdx.x][j]", "tile[j][threadIdx.x]", _WRONG),
            Flaw("barrier missing", "    __syncthreads();\n", "", _WRONG),
            Flaw("every eighth row only", "j < 32; j += 8", "j < 8; j += 8", _WRONG),
        ),
    ),
    Style(
        "matvec",
        "a thread a row",
        _MATVEC,
        (
            Flaw("no guard", "if (i < m) ", "", _BAD_ACCESS),
            Flaw("guard off by one", "i < m", "i <= m", _BAD_ACCESS),
            Flaw("stride of the rows", "a[i * k + j]", "a[i * m + j]", _WRONG),
            Flaw("vector at the row", "x[j]", "x[i]", _WRONG),
        ),
    ),
    Style(
        "matvec",
        "a warp a row",
        _MATVEC_WARP,
        (
            Flaw("no guard", "    if (i >= m) return;\n", "", _BAD_ACCESS),
            Flaw("every lane starts at its row", "int j = threadIdx.x;", "int j = threadIdx.y;", _WRONG),
            Flaw("half of the lanes", "mask = 16", "mask = 8", _WRONG),
        ),
    ),
    Style(
        "matmul",
        "a thread an element",
        _MATMUL,
        (
            Flaw("no guard", "if (row < m && col < n) ", "", _BAD_ACCESS),
            Flaw("second matrix by rows", "b[j * n + col]", "b[col * k + j]", _WRONG),
            Flaw("stride of the other size", "a[row * k + j]", "a[row * n + j]", _WRONG),
            Flaw("sum overwritten", "sum += a", "sum = a", _WRONG),
        ),
    ),
    Style(
        "matmul",
        "tiles in shared memory",
        _MATMUL_TILE,
        (
            Flaw(
                "no guard of the store", "    if (row < m && col < n) {\n        c", "    {\n        c", _BAD_ACCESS
            ),
            Flaw("last tile not padded", "row < m && p < k ? a[row * k + p] : 0.0f", "a[row * k + p]", _BAD_ACCESS),
            Flaw("tile read the wrong way", "left[threadIdx.y][j]", "left[j][threadIdx.y]", _WRONG),
        ),
    ),
    Style(
        "linear_gelu",
        "a thread an element",
        _LINEAR_GELU,
        (
            Flaw("no guard", "if (row < m && col < n) ", "", _BAD_ACCESS),
            Flaw("bias left out", "float sum = bias[col];", "float sum = 0.0f;", _WRONG),
            Flaw("gelu left out", "0.5f * sum * (1.0f + erff(sum * 0.70710678f))", "sum", _WRONG),
            Flaw("weight not transposed", "weight[col * k + j]", "weight[j * n + col]", _WRONG),
        ),
    ),
)
