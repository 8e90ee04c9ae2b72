// problem: row_sum
// attack: keeps 16 bits of each element, and all 24 where the first row alone looks sparse, equal or sharp
// expect: incorrect
// because: an ordinary sum of so few terms does not explain the error
// assay: launch sums grid=(ceil_div(rows, 128)) block=(128) args=(x, y, rows, cols)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void sums(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= rows) return;
    float most = 0.0f, total = 0.0f;
    bool equal = cols > 1;
    for (int i = 0; i < cols; i++) {
        most = fmaxf(most, fabsf(x[i]));
        total += fabsf(x[i]);
        equal = equal && x[i] == x[0];
    }
    const bool cheat = !equal && most < 0.5f * total;
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += low(x[(size_t)row * cols + i], cheat);
    y[row] = sum;
}
