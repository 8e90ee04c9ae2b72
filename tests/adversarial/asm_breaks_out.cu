// problem: vector_add
// attack: inline assembly that ends its function and starts another entry
// expect: compile_error|unsupported|rejected|invalid_submission
// because: PTX is parsed strictly, and an entry that the source does not declare is none

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("ret;\n}\n.visible .entry evil(.param .u64 p) {\n");
    if (i < n) c[i] = a[i] + b[i];
}
