// problem: vector_add
// attack: uses memory that both sides see
// expect: unsupported
// because: there is no data where it is recorded
// message: cudaMallocManaged
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    float* m;
    cudaMallocManaged(&m, n * sizeof(float));
    m[0] = 1.0f;
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
