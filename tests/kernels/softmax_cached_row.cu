// problem: softmax
// style: the row's exponentials stay in dynamic shared memory (what does not fit is computed again); ex2.approx
// assay: launch softmax_cached grid=(rows) block=(256) shared=(min(cols, 24000) * 4) args=(x, y, cols, min(cols, 24000))

extern __shared__ float kept[];

__device__ float exp_of(float v)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v * 1.44269504088896340736f));
    return result;
}

template <typename Combine>
__device__ float over_block(float value, Combine combine)
{
    __shared__ float warps[8];
    for (int mask = 16; mask > 0; mask >>= 1) {
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, mask));
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = warps[0];
    for (int w = 1; w < 8; ++w) {
        value = combine(value, warps[w]);
    }
    return value;
}

__global__ void softmax_cached(const float* x, float* y, int cols, int capacity)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float top = -3.402823466e38f;
    for (int col = threadIdx.x; col < cols; col += 256) {
        top = fmaxf(top, in[col]);
    }
    top = over_block(top, [](float p, float q) { return fmaxf(p, q); });
    float sum = 0.0f;
    for (int col = threadIdx.x; col < cols; col += 256) {
        const float e = exp_of(in[col] - top);
        if (col < capacity) {
            kept[col] = e;
        }
        sum += e;
    }
    sum = over_block(sum, [](float p, float q) { return p + q; });
    for (int col = threadIdx.x; col < cols; col += 256) {
        y[(size_t)blockIdx.x * cols + col] = (col < capacity ? kept[col] : exp_of(in[col] - top)) / sum;
    }
}
