// problem: vector_add
// attack: chooses a kernel by measuring
// expect: unsupported
// because: nothing runs, so there is no time
// message: cudaEventElapsedTime
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaEventRecord(begin);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    cudaEventRecord(end);
    float ms;
    cudaEventElapsedTime(&ms, begin, end);
    if (ms > 1.0f) return;
}
