// problem: matvec
// style: Ogita, Rump and Oishi's Dot2: TwoProduct by fmaf, TwoSum, pairs joined through shuffles
// assay: launch mv_dot2 grid=(ceil_div(m, 4)) block=(128) args=(a, x, y, m, k)
__device__ void two_sum(float& s, float& e, float v)
{
    const float t = s + v, z = t - s;
    e += (s - (t - z)) + (v - z);
    s = t;
}

__global__ void mv_dot2(const float* a, const float* x, float* y, int m, int k)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= m) return;
    float s = 0.0f, e = 0.0f;
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        const float p = a[(size_t)row * k + j] * x[j];
        e += fmaf(a[(size_t)row * k + j], x[j], -p);
        two_sum(s, e, p);
    }
    for (int d = 16; d; d /= 2) {
        const float other = __shfl_down_sync(~0u, s, d), error = __shfl_down_sync(~0u, e, d);
        two_sum(s, e, other);
        e += error;
    }
    if (threadIdx.x % 32 == 0) y[row] = s + e;
}
