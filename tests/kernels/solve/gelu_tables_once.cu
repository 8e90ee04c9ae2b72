// problem: gelu
// style: a constant that an initialiser brings, and a table that a kernel makes in the first call
#include <cuda_runtime.h>

__constant__ float half_and_root[2];
__device__ int offsets[4];

__global__ void make_offsets(int step)
{
    offsets[threadIdx.x] = step * threadIdx.x;
}
__global__ void gelu(const float* x, float* y, int n)
{
    for (int i = 0; i < 4; ++i) {
        int at = 4 * blockIdx.x * blockDim.x + threadIdx.x + offsets[i];
        if (at < n) y[at] = half_and_root[0] * x[at] * (1.0f + erff(x[at] * half_and_root[1]));
    }
}

static bool bring()
{
    const float numbers[2] = {0.5f, 0.70710678118654752f};
    return cudaMemcpyToSymbol(half_and_root, numbers, sizeof numbers) == cudaSuccess;
}
static const bool there = bring();

extern "C" void solve(const float* x, float* y, int n)
{
    static bool first = true;
    if (first) make_offsets<<<1, 4>>>(128);
    first = false;
    if (there) gelu<<<(n + 511) / 512, 128>>>(x, y, n);
}
