// problem: vector_add
// attack: kills all processes that it can
// expect: runtime_error|passed
// because: the sandbox is its own, and it ended it itself
#include <cuda_runtime.h>
#include <csignal>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    kill(-1, SIGKILL);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
