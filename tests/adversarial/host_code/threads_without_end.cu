// problem: vector_add
// attack: starts threads until none can be had
// expect: runtime_error|timeout|out_of_memory
// because: a sandbox has 64 processes and threads
#include <cuda_runtime.h>
#include <thread>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    for (;;) new std::thread([] { for (;;) pause(); });
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
