// problem: vector_add
// attack: the classic <= instead of <, for the store alone
// expect: runtime_error
// because: a write outside a buffer is never harmless
// fault: out_of_bounds
// assay: launch add grid=(ceil_div(n + 1, 256)) block=(256) args=(a, b, c, n)

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = i < n ? a[i] + b[i] : 0.0f;
    if (i <= n) {
        c[i] = sum;  // HERE
    }
}
