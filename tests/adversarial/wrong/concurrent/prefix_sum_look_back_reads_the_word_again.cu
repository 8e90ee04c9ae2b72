// problem: prefix_sum
// class: schedule
// race: lock
// must: anything but passed
// why: look-back over packed words of state and value, each 64 bits and atomic; but the state is taken from one load and the value from another, and between the two an aggregate may have become a prefix, which is added while the look-back goes on
// proof: state 1 from the first load, prefix from the second: the tiles before are counted twice; CUB loads the pair once
// assay: temp ticket uint32 (1)
// assay: temp words uint64 (ceil_div(n, 128))
// assay: fill ticket value=0
// assay: fill words value=0
// assay: launch scan grid=(ceil_div(n, 128)) block=(128) args=(x, y, ticket, words, n)
__device__ __forceinline__ unsigned long long get(unsigned long long* word) { return atomicAdd(word, 0ull); }
__device__ __forceinline__ void put(unsigned long long* word, unsigned state, float value)
{
    atomicExch(word, (unsigned long long)__float_as_uint(value) << 32 | state);
}

__global__ void scan(const float* x, float* y, unsigned* ticket, unsigned long long* words, int n)
{
    __shared__ int tile;
    __shared__ float ends[4], before;
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
    __syncthreads();
    const int t = tile, lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = t * 128 + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int d = 1; d < 32; d <<= 1) {
        const float left = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += left;
    }
    if (lane == 31) ends[warp] = v;
    __syncthreads();
    float own = 0.0f, all = 0.0f;
    for (int w = 0; w < 4; ++w) {
        if (w < warp) own += ends[w];
        all += ends[w];
    }
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        if (t) {
            put(words + t, 1, all);
            for (int other = t - 1;; --other) {
                unsigned state;
                while ((state = (unsigned)get(words + other)) == 0) { }
                sum += __uint_as_float((unsigned)(get(words + other) >> 32));
                if (state == 2) break;
            }
        }
        put(words + t, 2, sum + all);
        before = sum;
    }
    __syncthreads();
    if (i < n) y[i] = before + own + v;
}
