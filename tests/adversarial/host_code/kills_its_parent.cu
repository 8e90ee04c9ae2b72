// problem: vector_add
// attack: kills the process that started it
// expect: runtime_error
// because: it ended that itself, again and again
#include <cuda_runtime.h>
#include <csignal>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    kill(getppid(), SIGKILL);
    pause();
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
