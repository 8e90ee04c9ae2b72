// problem: vector_add
// attack: ends its process as if all were well
// expect: runtime_error
// because: nothing was recorded: the recording is written when solve returns
// message: exit code 0
#include <cuda_runtime.h>
#include <cstdlib>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    exit(0);
}
