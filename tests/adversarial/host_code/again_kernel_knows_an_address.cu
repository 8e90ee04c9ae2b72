// problem: reduce_sum
// attack: a kernel keeps its answer, and gives it again where the input has the address that it had
// expect: incorrect
// because: a later call has other inputs at the same address
#include <cuda_runtime.h>

__global__ void sum(const float* x, float* y, float* kept, const float** known, int n)
{
    __shared__ float held[256];
    if (*known == x) {
        if (threadIdx.x == 0) *y = *kept;
        return;
    }
    float mine = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) mine += x[i];
    held[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    *y = *kept = held[0];
    *known = x;
}

extern "C" void solve(const float* x, float* y, int n)
{
    static float* kept = nullptr;
    static const float** known = nullptr;
    if (!kept) {
        cudaMalloc(&kept, sizeof(float));
        cudaMalloc(&known, sizeof(float*));
        cudaMemset(known, 0, sizeof(float*));
    }
    sum<<<1, 256>>>(x, y, kept, known, n);
}
