"""Sums of a whole vector, counts and scans."""

from typing import Final

from common.contract import Status
from trainer.data.kernels.style import Flaw, Style

_WRONG, _BAD_ACCESS = Status.INCORRECT, Status.RUNTIME_ERROR

_REDUCE_ATOMIC = """\
// assay: fill total value=0
// assay: launch KERNEL grid=(min(ceil_div(n, 256), 256)) block=(256) args=(x, total, n)
__global__ void KERNEL(const float* x, float* total, int n)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += x[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(total, sum);
    }
}
"""

_REDUCE_TWO = """\
// assay: temp partial float32 (256)
// assay: launch KERNEL grid=(256) block=(256) args=(x, partial, n)
// assay: launch KERNEL grid=(1) block=(256) args=(partial, total, 256)
__global__ void KERNEL(const float* x, float* total, int n)
{
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += x[i];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        total[blockIdx.x] = part[0];
    }
}
"""

_HISTOGRAM = """\
// assay: fill counts value=0
// assay: launch KERNEL grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)
__global__ void KERNEL(const int* values, int* counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&counts[values[i]], 1);
    }
}
"""

_HISTOGRAM_SHARED = """\
// assay: fill counts value=0
// assay: launch KERNEL grid=(min(ceil_div(n, 256), 64)) block=(256) args=(values, counts, n)
__global__ void KERNEL(const int* values, int* counts, int n)
{
    __shared__ int local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&local[values[i]], 1);
    }
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}
"""

_PREFIX_SUM = """\
// assay: launch KERNEL grid=(1) block=(256) args=(x, y, n)
__global__ void KERNEL(const float* x, float* y, int n)
{
    __shared__ float part[256];
    float carry = 0.0f;
    for (int start = 0; start < n; start += 256) {
        int i = start + threadIdx.x;
        part[threadIdx.x] = i < n ? x[i] : 0.0f;
        __syncthreads();
        for (int offset = 1; offset < 256; offset *= 2) {
            float before = threadIdx.x >= offset ? part[threadIdx.x - offset] : 0.0f;
            __syncthreads();
            part[threadIdx.x] += before;
            __syncthreads();
        }
        if (i < n) {
            y[i] = carry + part[threadIdx.x];
        }
        carry += part[255];
        __syncthreads();
    }
}
"""

STYLES: Final = (
    Style(
        "reduce_sum",
        "warp shuffles and an atomic",
        _REDUCE_ATOMIC,
        (
            Flaw("total not cleared", "// assay: fill total value=0\n", "", _WRONG),
            Flaw("every lane adds", "threadIdx.x % 32 == 0", "threadIdx.x % 16 == 0", _WRONG),
            Flaw("bound off by one", "i < n;", "i <= n;", _BAD_ACCESS),
        ),
    ),
    Style(
        "reduce_sum",
        "two launches",
        _REDUCE_TWO,
        (
            Flaw("temporary missing", "// assay: temp partial float32 (256)\n", "", Status.INVALID_SUBMISSION),
            Flaw("half of the block left out", "half = 128", "half = 64", _WRONG),
            Flaw("bound off by one", "i < n;", "i <= n;", _BAD_ACCESS),
        ),
    ),
    Style(
        "histogram",
        "global atomics",
        _HISTOGRAM,
        (
            Flaw("counts not cleared", "// assay: fill counts value=0\n", "", _WRONG),
            Flaw("no guard", "if (i < n) ", "", _BAD_ACCESS),
            Flaw("no atomic", "atomicAdd(&counts[values[i]], 1);", "counts[values[i]] += 1;", _WRONG),
        ),
    ),
    Style(
        "histogram",
        "shared atomics",
        _HISTOGRAM_SHARED,
        (
            Flaw("counts not cleared", "// assay: fill counts value=0\n", "", _WRONG),
            Flaw("bound off by one", "i < n;", "i <= n;", _BAD_ACCESS),
            Flaw("shared counts not cleared", "    local[threadIdx.x] = 0;\n", "", _WRONG),
        ),
    ),
    Style(
        "prefix_sum",
        "one block walks",
        _PREFIX_SUM,
        (
            Flaw("carry missing", "y[i] = carry + part", "y[i] = part", _WRONG),
            Flaw("scan stops early", "offset < 256;", "offset < 128;", _WRONG),
            Flaw("no guard", "        if (i < n) {\n", "        {\n", _BAD_ACCESS),
        ),
    ),
)
