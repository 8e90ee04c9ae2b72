// problem: vector_add
// attack: the environment of the compiler by way of /proc
// expect: rejected
// because: nothing is inherited, and diagnostics show no line of a foreign file
// hides: PATH=

#include "/proc/self/environ"

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
