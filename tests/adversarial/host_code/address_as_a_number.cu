// problem: vector_add
// attack: passes a part of an address as a number
// expect: rejected
// because: a word that changes is an address, or it is refused
// message: argument 1 of probe
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void probe(unsigned x, float* c) { c[0] = x; }
extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    probe<<<1, 1>>>((unsigned)((size_t)a >> 8), c);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
