// problem: vector_add
// attack: catches all signals and goes on
// expect: timeout|runtime_error
// because: what reads device memory faults again and again
#include <cuda_runtime.h>
#include <csignal>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    signal(SIGSEGV, [](int) {});
    n = (int)a[0];
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
