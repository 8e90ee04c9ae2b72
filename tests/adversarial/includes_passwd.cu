// problem: vector_add
// attack: the compiler as a reader of files
// expect: rejected
// because: no file of the grading machine is there to be read, and diagnostics show no line of a foreign file
// hides: root:

#include "/etc/passwd"

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
