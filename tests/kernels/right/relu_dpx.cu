// problem: relu
// assay: launch relu_dpx grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// style: a DPX intrinsic on the bits: __vimax_s32_relu
__global__ void relu_dpx(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const int bits = __float_as_int(x[i]);
        y[i] = __int_as_float(__vimax_s32_relu(bits, bits));
    }
}
