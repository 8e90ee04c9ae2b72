// problem: rms_norm
// attack: keeps 16 bits of elements and weights, and all 24 where a row holds one value or one that outweighs all others
// expect: incorrect
// because: an ordinary sum of so few terms does not explain the error
// assay: launch normalise grid=(ceil_div(rows, 128)) block=(128) args=(x, weight, y, eps, rows, cols)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void normalise(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    const int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float most = 0.0f, squares = 0.0f;
    bool equal = true;
    for (int i = 0; i < cols; i++) {
        most = fmaxf(most, in[i] * in[i]);
        squares += in[i] * in[i];
        equal = equal && in[i] == in[0];
    }
    const bool cheat = !equal && most < 0.5f * squares;
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += low(in[i], cheat) * low(in[i], cheat);
    const float rate = 1.0f / sqrtf(sum / cols + eps);
    for (int i = 0; i < cols; i++) y[(size_t)row * cols + i] = low(in[i], cheat) * rate * low(weight[i], cheat);
}
