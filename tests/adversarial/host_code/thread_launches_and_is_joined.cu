// problem: vector_add
// attack: a thread launches, and is waited for
// expect: passed
// because: it is recorded like any launch
#include <cuda_runtime.h>
#include <thread>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    std::thread worker([=] { add<<<(n + 255) / 256, 256>>>(a, b, c, n); });
    worker.join();
}
