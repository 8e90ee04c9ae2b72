// problem: swiglu
// style: sigmoid through tanhf where it is exact enough, through expf where it would cancel
// assay: launch swiglu_two_ways grid=(ceil_div(cols, 64), ceil_div(rows, 4)) block=(64, 4) args=(gate, up, y, rows, cols)

__global__ void swiglu_two_ways(const float* gate, const float* up, float* y, int rows, int cols)
{
    const int col = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y * 4 + threadIdx.y;
    if (row < rows && col < cols) {
        const size_t i = (size_t)row * cols + col;
        const float g = gate[i];
        float sigmoid;
        if (g > -1.0f) {
            sigmoid = 0.5f + 0.5f * tanhf(0.5f * g);
        } else {
            const float e = expf(g);
            sigmoid = e / (1.0f + e);
        }
        y[i] = g * sigmoid * up[i];
    }
}
