// problem: linear_gelu
// style: a thread an output, from the last feature to the first with Neumaier's compensation, the bias last; half of z times erfcf
// assay: launch lg_comp grid=(ceil_div(n, 32), ceil_div(m, 4)) block=(32, 4) args=(x, weight, bias, y, m, n, k)
__global__ void lg_comp(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    const int row = blockIdx.y * 4 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0.0f, lost = 0.0f;
    for (int l = k - 1; l >= 0; --l) {
        const float v = x[(size_t)row * k + l] * weight[(size_t)col * k + l], t = sum + v;
        lost += fabsf(sum) >= fabsf(v) ? (sum - t) + v : (v - t) + sum;
        sum = t;
    }
    const float z = sum + lost + bias[col];
    y[(size_t)row * n + col] = 0.5f * z * erfcf(-0.70710678f * z);
}
