// problem: softmax
// style: keeps the row in 200 KB of dynamic shared memory
// assay: launch rows_softmax grid=(rows) block=(256) shared=200000 args=(x, y, cols)

__device__ float over_block(float value, bool largest)
{
    __shared__ float warps[8];
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(~0u, value, step);
        value = largest ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = warps[0];
    for (int w = 1; w < 8; ++w) value = largest ? fmaxf(value, warps[w]) : value + warps[w];
    return value;
}

__global__ void rows_softmax(const float* x, float* y, int cols)
{
    extern __shared__ float row[];
    size_t start = (size_t)blockIdx.x * cols;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += 256) {
        row[49999 - i] = x[start + i];  // from the far end
        most = fmaxf(most, row[49999 - i]);
    }
    most = over_block(most, true);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 256) {
        row[49999 - i] = expf(row[49999 - i] - most);
        sum += row[49999 - i];
    }
    sum = over_block(sum, false);
    for (int i = threadIdx.x; i < cols; i += 256) y[start + i] = row[49999 - i] / sum;
}
