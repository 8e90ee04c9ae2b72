// problem: prefix_sum
// class: schedule
// race: fence
// must: anything but passed
// why: look-back with state and value in one struct of 8 bytes, but stored and loaded as two relaxed 32-bit words: the state may be there before the value, as CUB's packed word prevents
// proof: PTX ISA: two relaxed accesses of different words are not ordered; only one vector or 64-bit access of the pair, or release and acquire, would be
// assay: temp ticket uint32 (1)
// assay: temp words uint32 (ceil_div(n, 256) * 2)
// assay: fill ticket value=0
// assay: fill words value=0
// assay: launch scan grid=(ceil_div(n, 256)) block=(256) args=(x, y, ticket, words, n)
__device__ __forceinline__ void put(unsigned* word, unsigned state, float value)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word + 1), "r"(__float_as_uint(value)) : "memory");
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(state) : "memory");
}
__device__ __forceinline__ unsigned get(const unsigned* word)
{
    unsigned v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
    return v;
}

__global__ void scan(const float* x, float* y, unsigned* ticket, unsigned* words, int n)
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
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        if (t > 0) {
            while (get(words + 2 * (t - 1)) == 0) { }
            sum = __uint_as_float(get(words + 2 * (t - 1) + 1));
        }
        put(words + 2 * t, 1, sum + all);
        before = sum;
    }
    __syncthreads();
    if (i < n) y[i] = before + own + v;
}
