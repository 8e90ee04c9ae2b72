// problem: attention
// style: flash attention's base 2: q is scaled by log2(e) / sqrt(dim) first, exp2f, a correction only where the maximum rises; one warp a query
// assay: launch fa_base2 grid=(seq, heads) block=(32) args=(q, k, v, o, seq, dim)
__global__ void fa_base2(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const int lane = threadIdx.x;
    const float scale = 1.44269504f * rsqrtf((float)dim);
    float mine[4], out[4] = {}, top = -INFINITY, sum = 0.0f;
    for (int e = 0; e < 4; ++e)
        mine[e] = lane + 32 * e < dim ? q[head + (size_t)blockIdx.x * dim + lane + 32 * e] * scale : 0.0f;
    for (int j = 0; j < seq; ++j) {
        const float* key = k + head + (size_t)j * dim;
        float s = 0.0f;
        for (int e = 0; e < 4; ++e)
            if (lane + 32 * e < dim) s = fmaf(mine[e], key[lane + 32 * e], s);
        for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
        if (s > top) {
            const float factor = exp2f(top - s);
            sum *= factor;
            for (int e = 0; e < 4; ++e) out[e] *= factor;
            top = s;
        }
        const float p = exp2f(s - top);
        sum += p;
        for (int e = 0; e < 4; ++e)
            if (lane + 32 * e < dim) out[e] = fmaf(p, v[head + (size_t)j * dim + lane + 32 * e], out[e]);
    }
    for (int e = 0; e < 4; ++e)
        if (lane + 32 * e < dim) o[head + (size_t)blockIdx.x * dim + lane + 32 * e] = out[e] * (1.0f / sum);
}
