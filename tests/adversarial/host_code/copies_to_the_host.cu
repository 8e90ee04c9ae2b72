// problem: vector_add
// attack: copies the inputs to the host and computes there
// expect: unsupported
// because: there is no data where it is recorded
// message: cudaMemcpy
#include <cuda_runtime.h>
#include <vector>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    std::vector<float> x(n), y(n);
    cudaMemcpy(x.data(), a, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(y.data(), b, n * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; ++i) x[i] += y[i];
    cudaMemcpy(c, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
