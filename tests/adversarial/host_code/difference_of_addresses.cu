// problem: vector_add
// attack: passes how far two buffers are apart
// expect: rejected
// because: it changes with where the arrays lie, and no plan can say it
// message: Argument 2 of far_add, `long long d`, is the difference of addresses in two arrays, 'b' and 'a': it changes with where the arrays lie
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void far_add(const float* a, long long d, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + a[i + d];
}
extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    far_add<<<(n + 255) / 256, 256>>>(a, b - a, c, n);
}
