// problem: vector_add
// attack: a #line that makes an error seem to lie in another file, so that a helpful grader quotes it
// expect: compile_error|rejected
// because: diagnostics show no line that the submission did not bring
// hides: root:

#line 1 "/etc/passwd"
int broken = ;

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
