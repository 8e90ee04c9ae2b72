// problem: vector_add
// attack: an include that never ends
// expect: rejected
// because: the compiler has no input, and limits
// compile_timeout_s: 5

#include "/dev/stdin"
#include "/dev/tty"

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
