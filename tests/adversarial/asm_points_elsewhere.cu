// problem: vector_add
// attack: line information made up in inline assembly, so that a fault seems to lie on a line that is not there
// expect: runtime_error|compile_error|unsupported|rejected|invalid_submission
// because: a line is only named, and quoted, where the submission has it
// hides: root:
// assay: launch add grid=(ceil_div(n + 1, 256)) block=(256) args=(a, b, c, n)

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = i < n ? a[i] + b[i] : 0.0f;
    asm volatile(".file 7 \"/etc/passwd\"\n\t.loc 7 1 0\n\t.loc 1 2000000000 0\n\t");
    if (i <= n) c[i] = sum;
}
