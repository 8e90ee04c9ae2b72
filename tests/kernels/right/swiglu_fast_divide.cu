// problem: swiglu
// style: the usual one-liner of fused activations: __fdividef(g, 1 + __expf(-g)) * up
// assay: launch silu_fast grid=(ceil_div(rows * cols, 256)) block=(256) args=(gate, up, y, rows * cols)
__global__ void silu_fast(const float* gate, const float* up, float* y, int count)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) {
        const float g = gate[i];
        y[i] = __fdividef(g, 1.0f + __expf(-g)) * up[i];
    }
}
