// problem: attention
// class: schedule
// race: shuffle
// must: passed with a warning | anything but passed
// why: a warp leaves the weights of 32 keys in shared memory, then asks by __any_sync whether one of them counts, and reads them all: a vote orders lanes, but no memory, and nothing stands between the reads and the next weights
// proof: CUDA guide, warp vote functions: "do not imply a memory barrier"; two __syncwarp() are missing
// assay: launch att grid=(heads * seq) block=(32) args=(q, k, v, o, seq, dim)

__global__ void att(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    __shared__ float p[32];
    const int lane = threadIdx.x, query = blockIdx.x;
    const size_t from = (size_t)(query / seq) * seq * dim;
    const float scale = rsqrtf((float)dim);
    float m = -INFINITY, sum = 0.0f, acc[4] = {};
    for (int base = 0; base < seq; base += 32) {
        float s = -INFINITY;
        if (base + lane < seq) {
            s = 0.0f;
            for (int d = 0; d < dim; ++d) s += q[(size_t)query * dim + d] * k[from + (size_t)(base + lane) * dim + d];
            s *= scale;
        }
        float top = fmaxf(s, m);
        for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
        const float shrink = expf(m - top);
        m = top;
        p[lane] = expf(s - top);
        sum *= shrink;
        for (int e = 0; e < 4; ++e) acc[e] *= shrink;
        if (!__any_sync(~0u, s > top - 80.0f)) continue;
        for (int j = 0; j < min(32, seq - base); ++j) {
            sum += p[j];
            for (int e = 0; e < 4; ++e)
                if (lane + 32 * e < dim) acc[e] += p[j] * v[from + (size_t)(base + j) * dim + lane + 32 * e];
        }
    }
    for (int e = 0; e < 4; ++e)
        if (lane + 32 * e < dim) o[(size_t)query * dim + lane + 32 * e] = acc[e] / sum;
}
