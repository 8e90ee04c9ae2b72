// problem: vector_add
// attack: keeps the largest grid so far, and its kernel does not look where the vectors end
// expect: runtime_error
// because: a call may come behind a larger one
// message: In its call behind one at
#include <algorithm>
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c)
{
    int i = blockIdx.x;
    c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static int blocks = 0;
    blocks = std::max(blocks, n);
    add<<<blocks, 1>>>(a, b, c);
}
