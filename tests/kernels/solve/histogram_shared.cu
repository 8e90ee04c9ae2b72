// problem: histogram
// style: memset on a stream, counts in shared memory
#include <cuda_runtime.h>

__global__ void histogram(const int* values, int* counts, int n)
{
    __shared__ int mine[256];
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) mine[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[values[i]], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        if (mine[bin]) atomicAdd(&counts[bin], mine[bin]);
}

extern "C" void solve(const int* input, int* histogram_out, int N)
{
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithPriority(&stream, cudaStreamDefault, 0);
    cudaMemsetAsync(histogram_out, 0, 256 * sizeof(int), stream);
    int blocks = min((N + 255) / 256, 64);
    histogram<<<blocks, 256, 0, stream>>>(input, histogram_out, N);
    cudaStreamDestroy(stream);
}
