// problem: saxpy
// style: four non-blocking streams behind a fork event, joined by events; one of them is used again for the next round
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
    const int parts = 4, each = (n + parts - 1) / parts;
    float* scaled;
    cudaMallocAsync(&scaled, n * sizeof(float), 0);
    cudaStream_t streams[parts];
    cudaEvent_t fork, joined[parts], unused, none = nullptr;
    if (cudaStreamWaitEvent(0, none, 0) == cudaSuccess || cudaEventDestroy(none) == cudaSuccess) return;
    cudaEventCreateWithFlags(&unused, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    cudaMemsetAsync(scaled, 255, n * sizeof(float), 0);
    cudaEventRecord(fork, 0);
    for (int part = 0; part < parts; part++) {
        cudaStreamCreateWithFlags(&streams[part], cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&joined[part], cudaEventDisableTiming);
        cudaStreamWaitEvent(streams[part], fork, 0);
        cudaStreamWaitEvent(streams[part], unused, 0);
    }
    for (int part = 0; part < parts; part++) {
        int start = part * each, many = min(each, n - start);
        if (many > 0) scale<<<(many + 127) / 128, 128, 0, streams[part]>>>(x + start, scaled + start, alpha, many);
        cudaEventRecord(joined[part], streams[part]);
    }
    for (auto& event : joined) {
        cudaStreamWaitEvent(streams[3], event, 0);
        cudaEventDestroy(event);
    }
    add<<<(n + 127) / 128, 128, 0, streams[3]>>>(scaled, y, result, n);
    cudaEventRecord(fork, streams[3]);
    for (auto& stream : streams) cudaStreamDestroy(stream);
    cudaStreamWaitEvent(0, fork, 0);
    cudaFreeAsync(scaled, 0);
}
