// problem: rms_norm
// style: a block a row, rsqrtf
// assay: launch rms_norm grid=(rows) block=(256) args=(x, weight, y, eps, rows, cols)

__global__ void rms_norm(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    __shared__ float warps[8];
    const size_t base = (size_t)blockIdx.x * cols;
    float square = 0.0f;
    for (int col = threadIdx.x; col < cols; col += 256) {
        square = fmaf(x[base + col], x[base + col], square);
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        square += __shfl_down_sync(0xffffffffu, square, offset);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = square;
    }
    __syncthreads();
    if (threadIdx.x < 8) {
        square = warps[threadIdx.x];
        for (int offset = 4; offset > 0; offset >>= 1) {
            square += __shfl_xor_sync(0xffu, square, offset, 8);
        }
        if (threadIdx.x == 0) {
            warps[0] = rsqrtf(square / cols + eps);
        }
    }
    __syncthreads();
    const float scale = warps[0];
    for (int col = threadIdx.x; col < cols; col += 256) {
        y[base + col] = x[base + col] * scale * weight[col];
    }
}
