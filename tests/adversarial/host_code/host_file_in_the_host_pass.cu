// problem: vector_add
// attack: includes a file of the machine where only host code is compiled
// expect: rejected
// because: no text of ours may be read through a compiler
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

#ifndef __CUDA_ARCH__
#include "/etc/passwd"
#endif

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
