// problem: vector_add
// attack: a kernel keeps its answer in a buffer that the host zeroed once
// expect: incorrect
// because: the second call has the answer of the first
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, float* kept, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (kept[i] == 0.0f) kept[i] = a[i] + b[i];
    c[i] = kept[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static float* kept = nullptr;
    if (!kept) {
        cudaMalloc(&kept, n * sizeof(float));
        cudaMemset(kept, 0, n * sizeof(float));
    }
    add<<<(n + 255) / 256, 256>>>(a, b, c, kept, n);
}
