// problem: attention
// style: the log-sum-exp of each row first (online in lanes, merged by shuffles), then weights exp(s - lse) that need no division; keys from the last
// assay: temp lse float32 (heads, seq)
// assay: launch rows_lse grid=(seq, heads) block=(32) args=(q, k, lse, seq, dim)
// assay: launch rows_out grid=(seq, heads) block=(32) args=(q, k, v, lse, o, seq, dim)
__device__ float score(const float* q, const float* k, int dim)
{
    float s = 0.0f;
    for (int d = 0; d < dim; ++d) s = fmaf(q[d], k[d], s);
    return s / sqrtf((float)dim);
}

__global__ void rows_lse(const float* q, const float* k, float* lse, int seq, int dim)
{
    const size_t head = (size_t)blockIdx.y * seq;
    float top = -INFINITY, sum = 0.0f;
    for (int j = seq - 1 - (int)threadIdx.x; j >= 0; j -= 32) {
        const float s = score(q + (head + blockIdx.x) * dim, k + (head + j) * dim, dim), high = fmaxf(top, s);
        sum = sum * __expf(top - high) + __expf(s - high);
        top = high;
    }
    float all = top;
    for (int d = 16; d; d /= 2) all = fmaxf(all, __shfl_xor_sync(~0u, all, d));
    sum *= __expf(top - all);
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x == 0) lse[head + blockIdx.x] = all + logf(sum);
}

__global__ void rows_out(const float* q, const float* k, const float* v, const float* lse, float* o, int seq, int dim)
{
    const size_t head = (size_t)blockIdx.y * seq;
    float out[4] = {};
    for (int first = (seq - 1) / 32 * 32; first >= 0; first -= 32) {
        const int j = first + (int)threadIdx.x;
        const float w = j < seq ? expf(score(q + (head + blockIdx.x) * dim, k + (head + j) * dim, dim) -
                                       lse[head + blockIdx.x])
                                : 0.0f;
        for (int t = min(31, seq - 1 - first); t >= 0; --t) {
            const float p = __shfl_sync(~0u, w, t);
            for (int e = 0; e < 4; ++e) {
                const int d = threadIdx.x + 32 * e;
                if (d < dim) out[e] = fmaf(p, v[(head + first + t) * dim + d], out[e]);
            }
        }
    }
    for (int e = 0; e < 4; ++e)
        if (threadIdx.x + 32 * e < dim) o[(head + blockIdx.x) * dim + threadIdx.x + 32 * e] = out[e];
}
