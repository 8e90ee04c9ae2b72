// problem: softmax
// assay: launch softmax_rows grid=(ceil_div(rows, 2)) block=(64, 2) args=(x, y, rows, cols)
// style: rows up to 1024 stay in registers (sixteen a thread), longer ones are read again; two rows a block of 64 threads each
constexpr int kept = 16;

__device__ float both_warps(float v, bool maximum, float (*scratch)[2])
{
    for (int d = 16; d; d >>= 1) {
        const float o = __shfl_xor_sync(~0u, v, d);
        v = maximum ? fmaxf(v, o) : v + o;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.y][threadIdx.x / 32] = v;
    __syncthreads();
    const float a = scratch[threadIdx.y][0], b = scratch[threadIdx.y][1];
    return maximum ? fmaxf(a, b) : a + b;
}

__global__ void softmax_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    __shared__ float scratch[2][2];
    const int row = blockIdx.x * 2 + threadIdx.y;
    const bool real = row < rows;
    const size_t start = (size_t)(real ? row : 0) * cols;
    float v[kept], top = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
        const int c = threadIdx.x + i * 64;
        v[i] = c < cols ? x[start + c] : -INFINITY;
        top = fmaxf(top, v[i]);
    }
    for (int c = threadIdx.x + kept * 64; c < cols; c += 64) top = fmaxf(top, x[start + c]);
    top = both_warps(top, true, scratch);
#pragma unroll
    for (int i = 0; i < kept; ++i) sum += v[i] = expf(v[i] - top);
    for (int c = threadIdx.x + kept * 64; c < cols; c += 64) sum += expf(x[start + c] - top);
    const float scale = 1.0f / both_warps(sum, false, scratch);
    if (!real) return;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
        const int c = threadIdx.x + i * 64;
        if (c < cols) y[start + c] = v[i] * scale;
    }
    for (int c = threadIdx.x + kept * 64; c < cols; c += 64) y[start + c] = expf(x[start + c] - top) * scale;
}
