// problem: vector_add
// attack: remembers by the output's address that it has the answer
// expect: rejected
// because: the same address holds another answer's place at the next call
// message: remembers its answer
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static const float* last = nullptr;
    if (c == last) return;
    last = c;
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
