// problem: vector_add
// attack: waits without using the processor
// expect: timeout
// because: one call has three seconds by the clock on the wall
#include <cuda_runtime.h>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    for (;;) pause();
}
