// problem: prefix_sum
// class: schedule
// race: barrier
// must: anything but passed
// why: two launches scan the two halves with the same flags, which nobody clears between: a block of the second launch may see the flag of the first one and take its old carry
// proof: ABA over launches: flag 1 means this launch or the last; an epoch or a fill is needed
// assay: temp ticket uint32 (2)
// assay: temp flag uint32 (ceil_div(ceil_div(n, 2), 128) + 1)
// assay: temp carry float32 (ceil_div(ceil_div(n, 2), 128) + 1)
// assay: fill ticket value=0
// assay: fill flag value=0
// assay: fill carry value=0
// assay: launch chain grid=(ceil_div(ceil_div(n, 2), 128)) block=(128) args=(x, y, ticket, flag, carry, 0, ceil_div(n, 2), 0)
// assay: launch chain grid=(ceil_div(ceil_div(n, 2), 128)) block=(128) args=(x, y, ticket, flag, carry, ceil_div(n, 2), n, 1)

__global__ void chain(const float* x, float* y, unsigned* ticket, unsigned* flag, float* carry, int begin, int end, int half)
{
    __shared__ float s[128], before;
    __shared__ int tile;
    const int t = threadIdx.x;
    if (t == 0) tile = atomicAdd(&ticket[half], 1u);
    __syncthreads();
    const int mine = tile, i = begin + mine * 128 + t;
    s[t] = i < end ? x[i] : 0.0f;
    for (int d = 1; d < 128; d *= 2) {
        __syncthreads();
        const float u = t >= d ? s[t - d] : 0.0f;
        __syncthreads();
        s[t] += u;
    }
    if (t == 127) {
        float c = 0.0f;
        if (mine) {
            while (atomicAdd(&flag[mine - 1], 0u) == 0) __nanosleep(20);
            __threadfence();
            c = __ldcg(&carry[mine - 1]);
        } else if (half) {
            c = __ldcg(&carry[gridDim.x]);
        }
        before = c;
        __stcg(&carry[mine + 1 == gridDim.x ? gridDim.x : mine], c + s[127]);
        __threadfence();
        atomicExch(&flag[mine], 1u);
    }
    __syncthreads();
    if (i < end) y[i] = before + s[t];
}
