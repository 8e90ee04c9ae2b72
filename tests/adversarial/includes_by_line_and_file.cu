// problem: vector_add
// attack: #line renames this file, and #include __FILE__ then reads the other one: no path in the include
// expect: compile_error|rejected
// because: diagnostics show no line that the submission did not bring
// hides: root:

#line 1 "/etc/passwd"
#include __FILE__

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
