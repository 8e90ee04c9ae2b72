// problem: vector_add
// attack: waits for an event that was destroyed
// expect: runtime_error
// because: the handle is of nothing
// message: an event that was never created, or that was destroyed
#include <cuda_runtime.h>

__global__ void take(const float* a, float* taken, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) taken[i] = a[i];
}
__global__ void add(const float* taken, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = taken[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    const int blocks = (n + 255) / 256;
    float* taken;
    cudaMalloc(&taken, n * sizeof(float));
    cudaEvent_t done;
    cudaEventCreate(&done);
    take<<<blocks, 256, 0, 0>>>(a, taken, n);
    cudaEventRecord(done, 0);
    cudaEventDestroy(done);
    cudaStreamWaitEvent(0, done, 0);
    add<<<blocks, 256, 0, 0>>>(taken, b, c, n);
}
