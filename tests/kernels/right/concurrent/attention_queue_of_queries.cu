// problem: attention
// assay: temp next int32 (1)
// assay: fill next value=0
// assay: launch att grid=(80) block=(128) args=(q, k, v, o, next, heads * seq, seq, dim)
// style: persistent warps draw queries from a queue; scores go through shared memory of the warp between two __syncwarp()
__global__ void att(const float* q, const float* k, const float* v, float* o, int* next, int queries, int seq, int dim)
{
    __shared__ float scores[4][32];
    float* mine = scores[threadIdx.x >> 5];
    const int lane = threadIdx.x & 31;
    const float scale = 1.0f / sqrtf((float)dim);
    while (true) {
        int query = 0;
        if (lane == 0) query = atomicAdd(next, 1);
        query = __shfl_sync(0xffffffffu, query, 0);
        if (query >= queries) break;
        const size_t from = (size_t)(query / seq) * seq * dim;
        float m = -INFINITY, sum = 0.0f, acc[4] = {};
        for (int base = 0; base < seq; base += 32) {
            float s = -INFINITY;
            if (base + lane < seq) {
                s = 0.0f;
                for (int d = 0; d < dim; ++d) s += q[(size_t)query * dim + d] * k[from + (size_t)(base + lane) * dim + d];
                s *= scale;
            }
            float top = s;
            for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
            top = fmaxf(top, m);
            const float shrink = expf(m - top);
            m = top;
            mine[lane] = expf(s - top);
            __syncwarp();
            sum *= shrink;
            for (int e = 0; e < 4; ++e) acc[e] *= shrink;
            for (int j = 0; j < min(32, seq - base); ++j) {
                const float p = mine[j];
                sum += p;
                for (int e = 0; e < 4; ++e)
                    if (lane + 32 * e < dim) acc[e] += p * v[from + (size_t)(base + j) * dim + lane + 32 * e];
            }
            __syncwarp();
        }
        for (int e = 0; e < 4; ++e)
            if (lane + 32 * e < dim) o[(size_t)query * dim + lane + 32 * e] = acc[e] / sum;
    }
}
