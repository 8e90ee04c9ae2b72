// problem: prefix_sum
// style: one element is only copied, with no launch
#include <cuda_runtime.h>

__global__ void prefix_sum(const float* x, float* y, int n)
{
    __shared__ float held[128];
    float before = 0.0f;
    for (int start = 0; start < n; start += 128) {
        int i = start + threadIdx.x;
        held[threadIdx.x] = i < n ? x[i] : 0.0f;
        __syncthreads();
        for (int distance = 1; distance < 128; distance *= 2) {
            float more = threadIdx.x >= distance ? held[threadIdx.x - distance] : 0.0f;
            __syncthreads();
            held[threadIdx.x] += more;
            __syncthreads();
        }
        if (i < n) y[i] = before + held[threadIdx.x];
        before += held[127];
        __syncthreads();
    }
}

extern "C" void solve(const float* x, float* y, int n)
{
    if (n == 1)
        cudaMemcpy(y, x, sizeof(float), cudaMemcpyDeviceToDevice);
    else
        prefix_sum<<<1, 128>>>(x, y, n);
}
