// problem: vector_add
// attack: an include without end
// expect: rejected
// because: compiling has limits of time and memory
// compile_timeout_s: 5

#include "/dev/zero"

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
