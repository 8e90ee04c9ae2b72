// problem: vector_add
// attack: records the event that another stream waits for before the work, not behind it
// expect: incorrect
// because: the event stands for nothing
// message: no event and no wait orders them
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
    cudaStream_t one, other;
    cudaEvent_t done;
    cudaStreamCreate(&one);
    cudaStreamCreate(&other);
    cudaEventCreate(&done);
    cudaEventRecord(done, one);
    take<<<blocks, 256, 0, one>>>(a, taken, n);
    cudaStreamWaitEvent(other, done, 0);
    add<<<blocks, 256, 0, other>>>(taken, b, c, n);
}
