// problem: vector_add
// attack: defines cudaLaunchKernel itself
// expect: compile_error
// because: there is one runtime, and it is not the submission's
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" cudaError_t cudaMemset(void*, int, size_t) { return cudaSuccess; }
extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
