// problem: vector_add
// style: with a main that tries it
#include <cuda_runtime.h>
#include <cstdio>
#include <vector>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) printf("launch: %s\n", cudaGetErrorString(error));
}

int main()
{
    const int n = 1000;
    std::vector<float> host(n, 1.0f);
    float *a, *b, *c;
    cudaMalloc(&a, n * sizeof(float));
    cudaMalloc(&b, n * sizeof(float));
    cudaMalloc(&c, n * sizeof(float));
    cudaMemcpy(a, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(b, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    solve(a, b, c, n);
    cudaMemcpy(host.data(), c, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%f\n", host[0]);
    return host[0] == 2.0f ? 0 : 1;
}
