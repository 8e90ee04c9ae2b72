// problem: vector_add
// attack: launches for one element too many
// expect: runtime_error
// because: the plan is judged as any other
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 1 + 255) / 256, 256>>>(a, b, c, n + 1);
}
