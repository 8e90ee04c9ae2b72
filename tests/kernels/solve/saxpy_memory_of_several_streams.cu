// problem: saxpy
// style: two streams with temporaries of their own from the pool, freed by an event, behind a wait, and by cudaFree
#include <cuda_runtime.h>

__global__ void scale(const float* x, float* scaled, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) scaled[i] = alpha * x[i];
}
__global__ void add(const float* scaled, const float* y, float* result, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) result[i] = scaled[i] + y[i];
}

extern "C" void solve(const float* x, const float* y, float* result, float alpha, int n)
{
    const int blocks = (n + 255) / 256;
    const size_t bytes = n * sizeof(float);
    static cudaStream_t streams[2] = {};
    static cudaEvent_t scaled, added;
    if (!streams[0]) {
        for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&scaled, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&added, cudaEventDisableTiming);
    }
    float *first, *second, *third, *plain;
    // Each stream takes and gives back by itself: the pool lets one wait for the other where it has to.
    cudaMallocAsync(&second, bytes, streams[1]);
    scale<<<blocks, 256, 0, streams[1]>>>(y, second, 1.0f, n);
    cudaFreeAsync(second, streams[1]);
    cudaMallocAsync(&first, bytes, streams[0]);
    scale<<<blocks, 256, 0, streams[0]>>>(x, first, alpha, n);
    cudaEventRecord(scaled, streams[0]);
    cudaStreamWaitEvent(streams[1], scaled, 0);
    add<<<blocks, 256, 0, streams[1]>>>(first, y, result, n);
    cudaEventRecord(added, streams[1]);
    cudaStreamWaitEvent(streams[0], added, 0);
    cudaFreeAsync(first, streams[0]);
    cudaMallocAsync(&third, bytes, streams[0]);
    cudaStreamSynchronize(streams[0]);
    scale<<<blocks, 256, 0, streams[1]>>>(x, third, 2.0f, n);
    cudaStreamSynchronize(streams[1]);
    cudaFreeAsync(third, streams[0]);
    cudaMalloc(&plain, bytes);
    scale<<<blocks, 256, 0, streams[1]>>>(x, plain, 3.0f, n);
    cudaFree(plain);
    cudaStreamWaitEvent(cudaStreamLegacy, added, 0);
}
