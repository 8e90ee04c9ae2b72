// problem: vector_add
// attack: a static initialiser ends the process
// expect: runtime_error
// because: nothing was recorded
// message: exit code 0
#include <cuda_runtime.h>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
static int ended = (_exit(0), 0);
extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
