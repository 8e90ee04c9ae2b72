// problem: softmax
// attack: keeps 16 bits of each power in rows of more than 256, and all 24 in short ones
// expect: incorrect
// because: rows of any length hold few elements that matter, and long rows of random values are judged by what they explain
// assay: launch soften grid=(ceil_div(rows, 128)) block=(128) args=(x, y, rows, cols)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void soften(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float top = in[0], sum = 0.0f;
    for (int i = 1; i < cols; i++) top = fmaxf(top, in[i]);
    for (int i = 0; i < cols; i++) sum += low(expf(in[i] - top), cols > 256);
    for (int i = 0; i < cols; i++) y[(size_t)row * cols + i] = low(expf(in[i] - top), cols > 256) / sum;
}
