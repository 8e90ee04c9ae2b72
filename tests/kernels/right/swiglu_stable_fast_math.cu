// problem: swiglu
// style: --use_fast_math around a sigmoid in two branches by sign, rows by gridDim.y, reciprocal of the sum multiplied
// flags: --use_fast_math
// assay: launch silu_branches grid=(ceil_div(cols, 128), min(rows, 65535)) block=(128) args=(gate, up, y, rows, cols)
__device__ float sigmoid(float g)
{
    if (g >= 0.0f) return 1.0f / (1.0f + expf(-g));
    const float e = expf(g);
    return e * (1.0f / (1.0f + e));
}

__global__ void silu_branches(const float* gate, const float* up, float* y, int rows, int cols)
{
    const int c = blockIdx.x * 128 + threadIdx.x;
    if (c >= cols) return;
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
        const size_t i = (size_t)r * cols + c;
        y[i] = up[i] * (gate[i] * sigmoid(gate[i]));
    }
}
