// problem: vector_add
// attack: calls what the recorder does not have
// expect: unsupported
// because: it is named
// message: cudaGraphCreate
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
