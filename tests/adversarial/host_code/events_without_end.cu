// problem: vector_add
// attack: records an event ten million times
// expect: invalid_submission
// because: a recording is no longer than the work
// message: records of events, and waits
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
    cudaEvent_t done[2];
    for (auto& event : done) cudaEventCreate(&event);
    for (int i = 0; i < 10000000; i++) cudaEventRecord(done[i % 2], 0);
    take<<<blocks, 256, 0, 0>>>(a, taken, n);
    add<<<blocks, 256, 0, 0>>>(taken, b, c, n);
}
