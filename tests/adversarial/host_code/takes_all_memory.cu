// problem: vector_add
// attack: takes all memory of the host
// expect: out_of_memory|runtime_error|timeout
// because: a sandbox has the memory limit of the evaluation
#include <cuda_runtime.h>
#include <cstdlib>
#include <cstring>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    for (;;) memset(malloc(1 << 26), 1, 1 << 26);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
