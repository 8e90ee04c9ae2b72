// problem: vector_add
// attack: inline assembly with C text for a translator that copies it
// expect: compile_error|unsupported|rejected|invalid_submission
// because: every identifier is renamed and what does not parse is refused

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("mov.u32 x; } } int system(const char*); void f() { system(\"id\"); } /*");
    if (i < n) c[i] = a[i] + b[i];
}
