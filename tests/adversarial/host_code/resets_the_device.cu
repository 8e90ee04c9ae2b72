// problem: vector_add
// attack: resets the device once all is launched
// expect: runtime_error
// because: the caller's tensors are gone then
// message: cudaDeviceReset
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    cudaDeviceReset();
}
