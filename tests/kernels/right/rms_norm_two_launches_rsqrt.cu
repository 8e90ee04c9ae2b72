// problem: rms_norm
// assay: temp scale float32 (rows)
// assay: launch row_scale grid=(rows) block=(128) args=(x, scale, eps, cols)
// assay: launch apply_scale grid=(ceil_div(rows * cols, 1024)) block=(256) args=(x, scale, weight, y, rows, cols)
// style: the scale of each row first, then an element-wise launch with four strided elements a thread
__global__ void row_scale(const float* x, float* scale, float eps, int cols)
{
    __shared__ float sums[4];
    float s = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 128) {
        const float v = x[(size_t)blockIdx.x * cols + j];
        s = fmaf(v, v, s);
    }
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
    if (!(threadIdx.x & 31)) sums[threadIdx.x >> 5] = s;
    __syncthreads();
    if (threadIdx.x == 0) scale[blockIdx.x] = rsqrtf((sums[0] + sums[1] + sums[2] + sums[3]) / cols + eps);
}

__global__ void apply_scale(const float* x, const float* scale, const float* weight, float* y, int rows, int cols)
{
    const int total = rows * cols;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = blockIdx.x * 1024 + k * 256 + threadIdx.x;
        if (i < total) y[i] = x[i] * scale[i / cols] * weight[i % cols];
    }
}
