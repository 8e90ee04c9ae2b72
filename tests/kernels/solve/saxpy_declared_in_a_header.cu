// problem: saxpy
// style: LeetGPU's header declares solve, and the text is C++
#include "solve.h"
#include <cuda_runtime.h>

constexpr int kThreads = 192;

__global__ void axpy(const float* __restrict__ x, const float* __restrict__ y, float* out, float alpha, int n)
{
    const int i = threadIdx.x + blockIdx.x * kThreads;
    if (i >= n) return;
    out[i] = fmaf(alpha, x[i], y[i]);
}

void solve(const float* x, const float* y, float* out, float alpha, int n)
{
    axpy<<<(n + kThreads - 1) / kThreads, kThreads>>>(x, y, out, alpha, n);
    cudaDeviceSynchronize();
}
