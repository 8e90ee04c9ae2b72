// problem: relu
// style: no branch and no comparison: the sign bit becomes a mask
// assay: launch relu_mask grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu_mask(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const int bits = __float_as_int(x[i]);
        y[i] = __int_as_float(bits & ~(bits >> 31));
    }
}
