// problem: vector_add
// attack: has the right order in its first call alone
// expect: incorrect
// because: the later calls are judged
#include <cuda_runtime.h>

__global__ void copy(const float* a, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i];
}
__global__ void more(const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] += b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static bool first = true;
    int blocks = (n + 255) / 256;
    if (first) copy<<<blocks, 256>>>(a, c, n);
    more<<<blocks, 256>>>(b, c, n);
    if (!first) copy<<<blocks, 256>>>(a, c, n);
    first = false;
}
