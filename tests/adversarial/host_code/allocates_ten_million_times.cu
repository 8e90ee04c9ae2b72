// problem: vector_add
// attack: allocates without measure
// expect: invalid_submission
// because: a plan has so many buffers at most
// message: 508 allocations
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    float* p;
    for (int i = 0; i < 10000000; ++i) cudaMalloc(&p, 4);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
