// problem: attention
// class: schedule
// race: barrier
// must: anything but passed
// why: keys and then values go through the same shared tile; __syncthreads() stands behind each load, but none before the next one, so values overwrite keys that slower warps still read
// proof: the second barrier of a reused buffer is missing, twice a step
// assay: launch att grid=(ceil_div(seq, 4), heads) block=(32, 4) args=(q, k, v, o, seq, dim)

__global__ void att(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    __shared__ float tile[32][129];
    const int lane = threadIdx.x, w = threadIdx.y, i = min(blockIdx.x * 4 + w, seq - 1);
    const size_t from = (size_t)blockIdx.y * seq * dim;
    const float scale = rsqrtf((float)dim);
    float m = -INFINITY, sum = 0.0f, acc[4] = {};
    auto bring = [&](const float* what, int base) {
        for (int j = w; j < min(32, seq - base); j += 4)
            for (int d = lane; d < dim; d += 32) tile[j][d] = what[from + (size_t)(base + j) * dim + d];
        __syncthreads();
    };
    for (int base = 0; base < seq; base += 32) {
        bring(k, base);
        float s = -INFINITY;
        if (base + lane < seq) {
            s = 0.0f;
            for (int d = 0; d < dim; ++d) s += q[from + (size_t)i * dim + d] * tile[lane][d];
            s *= scale;
        }
        float top = fmaxf(m, s);
        for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
        const float shrink = expf(m - top), p = expf(s - top);
        m = top;
        sum *= shrink;
        for (int e = 0; e < 4; ++e) acc[e] *= shrink;
        bring(v, base);
        for (int j = 0; j < min(32, seq - base); ++j) {
            const float pj = __shfl_sync(~0u, p, j);
            sum += pj;
            for (int e = 0; e < 4; ++e)
                if (lane + 32 * e < dim) acc[e] += pj * tile[j][lane + 32 * e];
        }
    }
    for (int e = 0; e < 4; ++e)
        if (blockIdx.x * 4 + w < seq && lane + 32 * e < dim) o[from + (size_t)i * dim + lane + 32 * e] = acc[e] / sum;
}
