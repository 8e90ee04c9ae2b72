// problem: vector_add
// attack: inline assembly that ends its function and starts another entry
// expect: incorrect|compile_error|unsupported|rejected|invalid_submission
// because: PTX is parsed strictly, and an entry that the source does not declare is none
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("ret;\n}\n.visible .entry evil(.param .u64 p) {\n");
    if (i < n) c[i] = a[i] + b[i];
}
