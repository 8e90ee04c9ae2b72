// problem: layer_norm
// assay: temp ticket uint32 (1)
// assay: temp ready uint32 (rows)
// assay: temp stats float32 (rows * 2)
// assay: fill ticket value=0
// assay: fill ready value=0
// assay: launch ln grid=(rows * 2) block=(128) args=(x, weight, bias, y, ticket, ready, stats, eps, rows, cols)
// style: the first tickets compute statistics of rows, later ones apply them: volatile flag, __threadfence() before and after
__device__ float sum_of(float v, float* warps)
{
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    return warps[0] + warps[1] + warps[2] + warps[3];
}

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, unsigned* ticket, volatile unsigned* ready,
                   float* stats, float eps, int rows, int cols)
{
    __shared__ unsigned drawn;
    __shared__ float warps[4];
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int row = drawn % rows;
    const float* in = x + (size_t)row * cols;
    if (drawn < rows) {
        float s = 0.0f, q = 0.0f;
        for (int c = threadIdx.x; c < cols; c += 128) s += in[c];
        const float mean = sum_of(s, warps) / cols;
        for (int c = threadIdx.x; c < cols; c += 128) q += (in[c] - mean) * (in[c] - mean);
        q = sum_of(q, warps);
        if (threadIdx.x == 0) {
            stats[2 * row] = mean;
            stats[2 * row + 1] = rsqrtf(q / cols + eps);
            __threadfence();
            ready[row] = 1;
        }
    } else {
        if (threadIdx.x == 0) {
            while (ready[row] == 0) __nanosleep(64);
            __threadfence();
        }
        __syncthreads();
        const float mean = stats[2 * row], inverse = stats[2 * row + 1];
        for (int c = threadIdx.x; c < cols; c += 128) y[(size_t)row * cols + c] = (in[c] - mean) * inverse * weight[c] + bias[c];
    }
}
