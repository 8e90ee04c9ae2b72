// problem: layer_norm
// attack: keeps 16 bits of elements, weights and biases in rows of more than 256, and all 24 in short ones
// expect: incorrect
// because: long rows of random values are judged by what their sums explain
// assay: launch normalise grid=(ceil_div(rows, 128)) block=(128) args=(x, weight, bias, y, eps, rows, cols)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void normalise(const float* x, const float* weight, const float* bias, float* y, float eps, int rows,
                          int cols)
{
    const int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    const bool cheat = cols > 256;
    float mean = 0.0f, variance = 0.0f;
    for (int i = 0; i < cols; i++) mean += low(in[i], cheat);
    mean /= cols;
    for (int i = 0; i < cols; i++) variance += (low(in[i], cheat) - mean) * (low(in[i], cheat) - mean);
    const float rate = 1.0f / sqrtf(variance / cols + eps);
    for (int i = 0; i < cols; i++)
        y[(size_t)row * cols + i] = (low(in[i], cheat) - mean) * rate * low(weight[i], cheat) + low(bias[i], cheat);
}
