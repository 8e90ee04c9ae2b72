// problem: vector_add
// attack: copies more than there is
// expect: runtime_error
// because: a copy must lie in its buffers
// message: beyond the end
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    cudaMemcpy(c, a, (n + 1) * sizeof(float), cudaMemcpyDeviceToDevice);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
