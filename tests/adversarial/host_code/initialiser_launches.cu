// problem: vector_add
// attack: does its work before it is called
// expect: passed
// because: what initialisers launch is recorded like everything, each time
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
static float* kept = nullptr;
static bool prepare()
{
    cudaMalloc(&kept, 1024);
    cudaMemset(kept, 0, 1024);
    return true;
}
static bool ready = prepare();
extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    if (!ready) return;
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
