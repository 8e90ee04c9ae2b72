// problem: rms_norm
// assay: launch rms_groups grid=(ceil_div(rows, 4)) block=(64, 4) args=(x, weight, y, eps, rows, cols)
// style: four rows a block; the two warps of each row meet at a named barrier of their own (barrier.sync id, 64)
__global__ void rms_groups(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    __shared__ float part[4][2];
    const int g = threadIdx.y, row = blockIdx.x * 4 + g;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float s = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 64) s += in[j] * in[j];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) part[g][threadIdx.x / 32] = s;
    asm volatile("barrier.sync %0, 64;" ::"r"(g + 1) : "memory");
    const float r = rsqrtf((part[g][0] + part[g][1]) / cols + eps);
    for (int j = threadIdx.x; j < cols; j += 64) y[(size_t)row * cols + j] = in[j] * r * weight[j];
}
