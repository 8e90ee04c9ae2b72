// problem: vector_add
// attack: writes the answer on the host
// expect: unsupported
// because: there is nothing to write to
// message: device memory
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    for (int i = 0; i < n; ++i) c[i] = 0.0f;
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
