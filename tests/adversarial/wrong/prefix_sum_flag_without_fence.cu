// problem: prefix_sum
// class: schedule
// must: anything but passed
// why: a block publishes its inclusive sum by a plain store and then sets a flag by an atomic, with no fence between; the next block may see the flag before the sum
// proof: CUDA guide, memory fence functions: without __threadfence() the order of the two writes is not kept for other blocks
// assay: temp flag uint32 (ceil_div(n, 1024) + 1)
// assay: temp carry float32 (ceil_div(n, 1024))
// assay: fill flag value=0
// assay: launch chained grid=(ceil_div(n, 1024)) block=(1024) args=(x, y, flag, carry, n)

__global__ void __launch_bounds__(1024) chained(const float* x, float* y, unsigned* flag, float* carry, int n)
{
    __shared__ float warps[32];
    __shared__ float before;
    __shared__ unsigned tile;
    if (threadIdx.x == 0) tile = atomicAdd(&flag[gridDim.x], 1u);  // tiles in order of start: no deadlock
    __syncthreads();
    const unsigned t = tile;
    const int i = t * 1024 + threadIdx.x, lane = threadIdx.x & 31, w = threadIdx.x >> 5;
    float v = i < n ? x[i] : 0.f;
    for (int o = 1; o < 32; o *= 2) {
        const float u = __shfl_up_sync(~0u, v, o);
        if (lane >= o) v += u;
    }
    if (lane == 31) warps[w] = v;
    __syncthreads();
    if (w == 0) {
        float s = warps[lane];
        for (int o = 1; o < 32; o *= 2) {
            const float u = __shfl_up_sync(~0u, s, o);
            if (lane >= o) s += u;
        }
        warps[lane] = s;
    }
    __syncthreads();
    if (w) v += warps[w - 1];
    if (threadIdx.x == 1023) {
        float c = 0.f;
        if (t > 0) {
            while (atomicAdd(&flag[t - 1], 0u) == 0u) { }
            c = *(volatile float*)&carry[t - 1];
        }
        before = c;
        *(volatile float*)&carry[t] = c + v;
        atomicExch(&flag[t], 1u);
    }
    __syncthreads();
    if (i < n) y[i] = v + before;
}
