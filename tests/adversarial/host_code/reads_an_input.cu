// problem: vector_add
// attack: looks at the data on the host
// expect: unsupported
// because: there is no data where it is recorded
// message: device memory
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    if (a[0] > 0.0f) n = n / 2;
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
