// problem: vector_add
// style: events and streams that are asked until they are done, or asked once and then waited for
#include <cstdlib>
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
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    take<<<blocks, 256, 0, one>>>(a, taken, n);
    cudaEvent_t taken_all;
    cudaEventCreateWithFlags(&taken_all, cudaEventDisableTiming);
    if (cudaStreamQuery(other) != cudaSuccess || cudaEventQuery(taken_all) != cudaSuccess) abort();  // nothing is there
    cudaEventRecord(taken_all, one);
    while (cudaEventQuery(taken_all) == cudaErrorNotReady || cudaStreamQuery(one) != cudaSuccess) {}
    if (cudaEventQuery(taken_all) != cudaSuccess) abort();
    add<<<blocks, 256, 0, other>>>(taken, b, c, n);
    if (cudaStreamQuery(other) == cudaErrorNotReady) cudaStreamSynchronize(other);
}
