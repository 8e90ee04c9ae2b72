// problem: vector_add
// attack: a file that includes itself, twice
// expect: compile_error|timeout|out_of_memory|invalid_submission
// because: compiling has limits
// compile_timeout_s: 5

#include __FILE__
#include __FILE__

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
