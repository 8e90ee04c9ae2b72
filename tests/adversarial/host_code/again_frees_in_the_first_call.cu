// problem: vector_add
// attack: frees after the first call what later ones use
// expect: runtime_error
// because: that is freed memory
// message: freed
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static float* half = nullptr;
    bool first = !half;
    if (first) cudaMalloc(&half, n * sizeof(float));
    add<<<(n + 255) / 256, 256>>>(a, b, half, n);
    cudaMemcpyAsync(c, half, 0, cudaMemcpyDeviceToDevice);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    if (first) cudaFree(half);
}
