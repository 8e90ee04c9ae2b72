// problem: vector_add
// attack: overwrites an input after use
// expect: invalid_submission
// because: inputs must come back unchanged
// message: input
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    cudaMemset((void*)a, 0, n * sizeof(float));
}
