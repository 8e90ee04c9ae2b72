// problem: vector_add
// attack: computes its grid once, by the size of the first call
// expect: incorrect
// because: a larger call has elements that no thread adds
// message: In its call behind one at
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

struct Config {
    int blocks;
    explicit Config(int n) : blocks((n + 31) / 32) {}
};

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static const Config config(n);
    add<<<config.blocks, 32>>>(a, b, c, n);
}
