// problem: vector_add
// attack: says that device memory is on the host
// expect: runtime_error
// because: the addresses say otherwise
// message: cudaMemcpyHostToDevice
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    float* d;
    cudaMalloc(&d, n * sizeof(float));
    cudaMemcpy(d, a, n * sizeof(float), cudaMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(d, b, c, n);
}
