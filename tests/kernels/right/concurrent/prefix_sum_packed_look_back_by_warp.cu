// problem: prefix_sum
// assay: temp ticket uint32 (1)
// assay: temp words uint64 (ceil_div(n, 256))
// assay: fill ticket value=0
// assay: fill words value=0
// assay: launch scan grid=(ceil_div(n, 256)) block=(256) args=(x, y, ticket, words, n)
// style: look-back over 32 tiles at once: state and value in one 64-bit word, stored and loaded relaxed, the nearest prefix found by ballot
__device__ __forceinline__ void put(unsigned long long* word, unsigned state, float value)
{
    const unsigned long long both = (unsigned long long)__float_as_uint(value) << 32 | state;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(both) : "memory");
}
__device__ __forceinline__ unsigned long long get(const unsigned long long* word)
{
    unsigned long long both;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(word) : "memory");
    return both;
}

__global__ void scan(const float* x, float* y, unsigned* ticket, unsigned long long* words, int n)
{
    __shared__ int tile;
    __shared__ float ends[8], before;
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
    __syncthreads();
    const int t = tile, lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = t * 256 + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int d = 1; d < 32; d <<= 1) {
        const float left = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += left;
    }
    if (lane == 31) ends[warp] = v;
    __syncthreads();
    float own = 0.0f, all = 0.0f;
    for (int w = 0; w < 8; ++w) {
        if (w < warp) own += ends[w];
        all += ends[w];
    }
    if (warp == 0) {
        float sum = 0.0f;
        if (t > 0) {
            if (lane == 0) put(words + t, 1, all);
            for (int top = t - 1;; top -= 32) {
                const int other = top - lane;
                unsigned long long w = 2;
                if (other >= 0) w = get(words + other);
                while (__any_sync(~0u, (unsigned)w == 0)) {
                    if ((unsigned)w == 0) w = get(words + other);
                }
                const unsigned whole = __ballot_sync(~0u, (unsigned)w == 2);
                const int last = whole ? __ffs(whole) - 1 : 31;
                float part = lane <= last ? __uint_as_float((unsigned)(w >> 32)) : 0.0f;
                for (int d = 16; d; d >>= 1) part += __shfl_xor_sync(~0u, part, d);
                sum += part;
                if (whole) break;
            }
        }
        if (lane == 0) {
            put(words + t, 2, sum + all);
            before = sum;
        }
    }
    __syncthreads();
    if (i < n) y[i] = before + own + v;
}
