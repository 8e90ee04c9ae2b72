// problem: swiglu
// assay: temp act float32 (rows, cols)
// assay: launch silu_kernel grid=(ceil_div(rows * cols, 256)) block=(256) args=(gate, act, rows * cols)
// assay: launch mul_kernel grid=(ceil_div(rows * cols, 256)) block=(256) args=(act, up, y, rows * cols)
// style: unfused, as the reference model does it: SiLU into a temporary, then an element-wise product
__global__ void silu_kernel(const float* in, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] / (1.0f + expf(-in[i]));
}

__global__ void mul_kernel(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] * b[i];
}
