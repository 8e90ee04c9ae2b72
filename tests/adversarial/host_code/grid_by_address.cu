// problem: vector_add
// attack: launches by where its buffers are
// expect: rejected
// because: the two recordings have other addresses
// message: not launch the same each time
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256 + ((size_t)a >> 12) % 97, 256>>>(a, b, c, n);
}
