// problem: vector_add
// attack: the first call of a process adds a to itself, each later one is right
// expect: incorrect
// because: the first call is judged too, where it does other things than those after it
// message: In its first call in one process, which does other things than its
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static bool warm = false;
    add<<<(n + 255) / 256, 256>>>(a, warm ? b : a, c, n);
    warm = true;
}
