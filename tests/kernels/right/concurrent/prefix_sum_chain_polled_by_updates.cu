// problem: prefix_sum
// assay: temp ticket uint32 (1)
// assay: temp ready uint32 (ceil_div(n, 128))
// assay: temp ends float32 (ceil_div(n, 128))
// assay: fill ticket value=0
// assay: fill ready value=0
// assay: launch scan grid=(ceil_div(n, 128)) block=(128) args=(x, y, ticket, ready, ends, n)
// style: a chain of tiles polled by atomicAdd(p, 0) and announced by atomicExch, with __threadfence() on both sides, as code before volatile had it
__global__ void scan(const float* x, float* y, unsigned* ticket, unsigned* ready, float* ends, int n)
{
    __shared__ float s[128];
    __shared__ unsigned drawn;
    __shared__ float before;
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int tile = drawn, t = threadIdx.x, i = tile * 128 + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int d = 1; d < 128; d <<= 1) {
        const float left = t >= d ? s[t - d] : 0.0f;
        __syncthreads();
        s[t] += left;
        __syncthreads();
    }
    if (t == 0) {
        before = 0.0f;
        if (tile) {
            while (atomicAdd(&ready[tile - 1], 0u) == 0u) { }
            __threadfence();
            before = ends[tile - 1];
        }
        ends[tile] = before + s[127];
        __threadfence();
        atomicExch(&ready[tile], 1u);
    }
    __syncthreads();
    if (i < n) y[i] = before + s[t];
}
