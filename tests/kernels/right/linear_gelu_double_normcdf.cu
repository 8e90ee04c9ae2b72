// problem: linear_gelu
// assay: launch linear_f64 grid=(ceil_div(m * n, 4)) block=(128) args=(x, weight, bias, y, m * n, n, k)
// style: a warp an output in double, shuffled as doubles, normcdf of the double
__global__ void linear_f64(const float* x, const float* weight, const float* bias, float* y, int count, int n, int k)
{
    const int id = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (id >= count) return;
    const float* u = x + (size_t)(id / n) * k;
    const float* v = weight + (size_t)(id % n) * k;
    double s = 0.0;
    for (int l = lane; l < k; l += 32) s = fma((double)u[l], (double)v[l], s);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (lane == 0) {
        const double z = s + bias[id % n];
        y[id] = (float)(z * normcdf(z));
    }
}
