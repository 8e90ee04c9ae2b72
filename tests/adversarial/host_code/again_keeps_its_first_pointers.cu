// problem: vector_add
// attack: keeps the pointers of its first call
// expect: rejected
// because: its second call has other tensors
// message: keeps pointers of an earlier call
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static const float *first = a, *second = b;
    static float* sum = c;
    add<<<(n + 255) / 256, 256>>>(first, second, sum, n);
}
