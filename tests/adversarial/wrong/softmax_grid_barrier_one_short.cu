// problem: softmax
// class: schedule
// must: anything but passed
// why: the parts of a row meet at a counter, but each waits until all but one have come (>= parts - 1): the slowest block's maximum and sum may be missing
// proof: a block that is late by more than the others need to arrive; the awaited number should be gridDim.x
// assay: temp tops float32 (rows * 4)
// assay: temp sums float32 (rows * 4)
// assay: temp arrived uint32 (rows)
// assay: fill arrived value=0
// assay: fill sums value=0
// assay: fill tops value=0
// assay: launch sm grid=(4, min(rows, 16)) block=(128) cooperative args=(x, y, tops, sums, arrived, rows, cols)

__global__ void sm(const float* x, float* y, float* tops, float* sums, unsigned* arrived, int rows, int cols)
{
    __shared__ float red[128];
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
    const int p = blockIdx.x, t = threadIdx.x, parts = gridDim.x;
    const int span = (cols + parts - 1) / parts, begin = p * span, end = min(begin + span, cols);
    const float* in = x + (size_t)r * cols;
    float m = -INFINITY;
    for (int c = begin + t; c < end; c += 128) m = fmaxf(m, in[c]);
    red[t] = m;
    __syncthreads();
    for (int h = 64; h; h >>= 1) {
        if (t < h) red[t] = fmaxf(red[t], red[t + h]);
        __syncthreads();
    }
    m = red[0];
    __syncthreads();
    float s = 0.f;
    for (int c = begin + t; c < end; c += 128) s += expf(in[c] - m);
    red[t] = s;
    __syncthreads();
    for (int h = 64; h; h >>= 1) {
        if (t < h) red[t] += red[t + h];
        __syncthreads();
    }
    if (t == 0) {
        atomicExch(&tops[r * 4 + p], m);
        atomicExch(&sums[r * 4 + p], red[0]);
        __threadfence();
        atomicAdd(&arrived[r], 1u);
        while (atomicAdd(&arrived[r], 0u) < parts - 1u) { }
        __threadfence();
    }
    __syncthreads();
    float top = -INFINITY, total = 0.f;
    for (int q = 0; q < parts; ++q) if (__ldcg(&sums[r * 4 + q]) > 0.f) top = fmaxf(top, __ldcg(&tops[r * 4 + q]));
    for (int q = 0; q < parts; ++q) {
        const float z = __ldcg(&sums[r * 4 + q]);
        if (z > 0.f) total += z * expf(__ldcg(&tops[r * 4 + q]) - top);
    }
    for (int c = begin + t; c < end; c += 128) y[(size_t)r * cols + c] = expf(in[c] - top) / total;
    __syncthreads();
    }
}
