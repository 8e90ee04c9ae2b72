// problem: vector_add
// attack: launches in its first call alone
// expect: rejected
// because: later calls have other inputs
// message: second call
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

static int calls = 0;

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    if (calls++ == 0) add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
