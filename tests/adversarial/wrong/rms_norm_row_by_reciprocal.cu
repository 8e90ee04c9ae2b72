// problem: rms_norm
// class: sizes
// must: anything but passed
// why: the second launch finds an element's row as index * (1 / cols) in float, which has 24 bits: next to row ends it takes the wrong row once rows * cols is a few million
// proof: assay grade --size rows=8191 --size cols=2047 refuses it
// assay: temp inv float32 (rows)
// assay: launch row_scale grid=(rows) block=(128) args=(x, inv, eps, cols)
// assay: launch apply grid=(ceil_div(rows * cols, 256)) block=(256) args=(x, weight, inv, y, rows * cols, cols)

__global__ void row_scale(const float* x, float* inv, float eps, int cols)
{
    __shared__ float part[128];
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 128) {
        const float v = x[(size_t)blockIdx.x * cols + c];
        s += v * v;
    }
    part[threadIdx.x] = s;
    for (int h = 64; h > 0; h >>= 1) {
        __syncthreads();
        if (threadIdx.x < h) part[threadIdx.x] += part[threadIdx.x + h];
    }
    if (threadIdx.x == 0) inv[blockIdx.x] = 1.0f / sqrtf(part[0] / cols + eps);
}

// Integer division is slow, multiplying by the reciprocal is not.
__device__ __forceinline__ int fast_div(int i, float reciprocal) { return __float2int_rz((i + 0.5f) * reciprocal); }

__global__ void apply(const float* x, const float* weight, const float* inv, float* y, int count, int cols)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int rows = count / cols;
    const int row = min(fast_div(i, 1.0f / cols), rows - 1);
    const int col = min(max(i - row * cols, 0), cols - 1);
    y[i] = x[i] * inv[row] * weight[col];
}
