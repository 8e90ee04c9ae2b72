// problem: vector_add
// attack: the parent waits for ever, the child returns
// expect: timeout|runtime_error
// because: only the process that was started can record
#include <cuda_runtime.h>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    if (fork()) for (;;) pause();
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
