// problem: reduce_sum
// attack: brings the size to constant memory in its first call alone
// expect: incorrect|runtime_error
// because: later calls have other sizes
// message: In its call behind one at
#include <cuda_runtime.h>

__constant__ int many;

__global__ void sum(const float* x, float* total)
{
    __shared__ float held[256];
    float mine = 0.0f;
    for (int i = threadIdx.x; i < many; i += 256) mine += x[i];
    held[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *total = held[0];
}

extern "C" void solve(const float* x, float* total, int n)
{
    static bool brought = false;
    if (!brought) cudaMemcpyToSymbol(many, &n, sizeof n);
    brought = true;
    sum<<<1, 256>>>(x, total);
}
