// problem: softmax
// assay: temp states uint64 (rows)
// assay: fill states value=0
// assay: launch merge grid=(rows, ceil_div(cols, 1024)) block=(128) args=(x, states, cols)
// assay: launch divide grid=(ceil_div(rows * cols, 256)) block=(256) args=(x, states, y, rows * cols, cols)
// style: maximum and sum of a row packed in 64 bits; blocks merge theirs by atomicCAS, a sum of zero means empty
struct state {
    float top, sum;
};

__device__ state both(state a, state b)
{
    if (a.sum == 0.0f) return b;
    if (b.sum == 0.0f) return a;
    const float top = fmaxf(a.top, b.top);
    return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

__device__ unsigned long long packed(state s) { return (unsigned long long)__float_as_uint(s.top) << 32 | __float_as_uint(s.sum); }
__device__ state unpacked(unsigned long long w) { return {__uint_as_float((unsigned)(w >> 32)), __uint_as_float((unsigned)w)}; }

__global__ void merge(const float* x, unsigned long long* states, int cols)
{
    __shared__ state warps[4];
    const size_t row = blockIdx.x;
    state mine = {0.0f, 0.0f};
    for (int c = blockIdx.y * 1024 + threadIdx.x; c < min(cols, (int)(blockIdx.y + 1) * 1024); c += 128) mine = both(mine, {x[row * cols + c], 1.0f});
    for (int d = 16; d; d >>= 1) mine = both(mine, {__shfl_xor_sync(~0u, mine.top, d), __shfl_xor_sync(~0u, mine.sum, d)});
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 4; ++w) mine = both(mine, warps[w]);
        unsigned long long seen = states[row], assumed;
        do {
            assumed = seen;
            seen = atomicCAS(&states[row], assumed, packed(both(unpacked(assumed), mine)));
        } while (seen != assumed);
    }
}

__global__ void divide(const float* x, const unsigned long long* states, float* y, int total, int cols)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= total) return;
    const state s = unpacked(states[i / cols]);
    y[i] = expf(x[i] - s.top) / s.sum;
}
