// problem: vector_add
// attack: launches in every second call
// expect: rejected
// because: each call has to compute
// message: remembers its answer
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static bool rests = true;
    rests = !rests;
    if (!rests) add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
