// problem: rms_norm
// style: a running mean of squares per lane, m += (x * x - m) / count, means joined by their counts; 1 / sqrt in approximations of PTX
// assay: launch rms_running grid=(ceil_div(rows, 4)) block=(128) args=(x, weight, y, eps, rows, cols)
__global__ void rms_running(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float mean = 0.0f, count = 0.0f;
    for (int j = lane; j < cols; j += 32) {
        count += 1.0f;
        mean += (in[j] * in[j] - mean) / count;
    }
    for (int d = 1; d < 32; d *= 2) {
        const float other = __shfl_xor_sync(~0u, mean, d), more = __shfl_xor_sync(~0u, count, d);
        const float all = fmaxf(count + more, 1.0f);
        mean = mean * (count / all) + other * (more / all);
        count += more;
    }
    float root, scale;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(mean + eps));
    asm("rcp.approx.f32 %0, %1;" : "=f"(scale) : "f"(root));
    for (int j = lane; j < cols; j += 32) y[(size_t)row * cols + j] = in[j] * scale * weight[j];
}
