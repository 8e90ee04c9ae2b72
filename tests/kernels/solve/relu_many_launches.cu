// problem: relu
// style: a loop of three hundred launches, by turns on two streams that events join at its end
#include <cuda_runtime.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

extern "C" void solve(const float* x, float* y, int n)
{
    cudaStream_t streams[2];
    for (auto& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    const int launches = 300, each = (n + launches - 1) / launches;
    for (int part = 0; part < launches; part++) {
        int start = min(part * each, n - 1), many = min(each, n - start);
        relu<<<(many + 63) / 64, 64, 0, streams[part % 2]>>>(x + start, y + start, many);
    }
    for (auto& stream : streams) {
        cudaEvent_t done;
        cudaEventCreate(&done);
        cudaEventRecord(done, stream);
        cudaStreamWaitEvent(0, done, 0);
    }
}
