// problem: swiglu
// style: e = expf(g) for negative gates, g * e / (1 + e), and g / (1 + expf(-g)) for the others; __fdiv_rn, --fmad=false
// flags: --fmad=false
// assay: launch silu_sides grid=(ceil_div(cols, 64), min(rows, 4096)) block=(64) args=(gate, up, y, rows, cols)
__global__ void silu_sides(const float* gate, const float* up, float* y, int rows, int cols)
{
    const int c = blockIdx.x * 64 + threadIdx.x;
    if (c >= cols) return;
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
        const size_t i = (size_t)r * cols + c;
        const float g = gate[i], e = expf(-fabsf(g));
        const float s = __fdiv_rn(g < 0.0f ? e : 1.0f, 1.0f + e);
        y[i] = g * s * up[i];
    }
}
