// problem: prefix_sum
// assay: temp words uint64 (ceil_div(n, 2048) + 1)
// assay: fill words value=0
// assay: launch scan_packed grid=(ceil_div(n, 2048)) block=(512) args=(x, y, words, n)
// style: look-back by a whole warp: flag and value packed in 64 bits, ld.relaxed and st.relaxed, ballot finds the prefix
__device__ __forceinline__ unsigned long long load_word(const unsigned long long* p)
{
    unsigned long long w;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(w) : "l"(p) : "memory");
    return w;
}

__device__ __forceinline__ void store_word(unsigned long long* p, unsigned flag, float v)
{
    const unsigned long long w = (unsigned long long)flag << 32 | __float_as_uint(v);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(w) : "memory");
}

__device__ float inclusive_warp(float v)
{
    for (int d = 1; d < 32; d <<= 1) {
        const float o = __shfl_up_sync(~0u, v, d);
        if ((threadIdx.x & 31) >= d) v += o;
    }
    return v;
}

__global__ void scan_packed(const float* x, float* y, unsigned long long* words, int n)
{
    __shared__ int my_tile;
    __shared__ float total[16], offset[16], from_left;
    if (threadIdx.x == 0) my_tile = (int)atomicAdd(words, 1ull);
    __syncthreads();
    const int tile = my_tile, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned long long* const state = words + 1;
    const int base = tile * 2048 + warp * 128 + lane;
    float v[4], run = 0.0f;
    for (int k = 0; k < 4; ++k) {
        v[k] = inclusive_warp(base + k * 32 < n ? x[base + k * 32] : 0.0f) + run;
        run = __shfl_sync(~0u, v[k], 31);
    }
    if (lane == 0) total[warp] = run;
    __syncthreads();
    if (warp == 0) {
        const float t = inclusive_warp(lane < 16 ? total[lane] : 0.0f);
        const float left = __shfl_up_sync(~0u, t, 1);
        if (lane < 16) offset[lane] = lane ? left : 0.0f;
        const float all = __shfl_sync(~0u, t, 15);
        float prefix = 0.0f;
        if (lane == 0) store_word(state + tile, tile == 0 ? 2 : 1, all);
        for (int right = tile - 1; right >= 0; right -= 32) {
            const int look = right - lane;
            unsigned long long w = 2ull << 32;
            if (look >= 0) {
                while (((w = load_word(state + look)) >> 32) == 0) __nanosleep(40);
            }
            const unsigned done = __ballot_sync(~0u, (w >> 32) == 2);
            const int stop = done ? __ffs(done) - 1 : 31;
            float part = lane <= stop ? __uint_as_float((unsigned)w) : 0.0f;
            for (int d = 16; d; d >>= 1) part += __shfl_xor_sync(~0u, part, d);
            prefix += part;
            if (done) break;
        }
        if (lane == 0) {
            if (tile > 0) store_word(state + tile, 2, prefix + all);
            from_left = prefix;
        }
    }
    __syncthreads();
    for (int k = 0; k < 4; ++k) {
        if (base + k * 32 < n) y[base + k * 32] = v[k] + (offset[warp] + from_left);
    }
}
