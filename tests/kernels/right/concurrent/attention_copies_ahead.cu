// problem: attention
// assay: launch att grid=(ceil_div(seq, 8), heads) block=(32, 8) args=(q, k, v, o, seq, dim)
// style: keys and values of eight positions ahead by cp.async in two buffers, one query a warp, cp.async.wait_group and barriers
__device__ __forceinline__ void copy_word(float* to, const float* from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

__global__ void att(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    __shared__ float ks[2][8][128], vs[2][8][128];
    const int lane = threadIdx.x, w = threadIdx.y, i = blockIdx.x * 8 + w;
    const size_t from = (size_t)blockIdx.y * seq * dim;
    const float scale = rsqrtf((float)dim);
    float qr[4], acc[4] = {}, m = -INFINITY, sum = 0.0f;
    for (int e = 0; e < 4; ++e) qr[e] = i < seq && lane + 32 * e < dim ? q[from + (size_t)i * dim + lane + 32 * e] : 0.0f;
    auto bring = [&](int at, int b) {
        if (at + w < seq)
            for (int d = lane; d < dim; d += 32) {
                copy_word(&ks[b][w][d], k + from + (size_t)(at + w) * dim + d);
                copy_word(&vs[b][w][d], v + from + (size_t)(at + w) * dim + d);
            }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    bring(0, 0);
    for (int at = 0, b = 0; at < seq; at += 8, b ^= 1) {
        bring(at + 8, b ^ 1);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        for (int j = 0; j < min(8, seq - at); ++j) {
            float s = 0.0f;
            for (int e = 0; e < 4; ++e)
                if (lane + 32 * e < dim) s += qr[e] * ks[b][j][lane + 32 * e];
            for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
            s *= scale;
            const float top = fmaxf(m, s), shrink = expf(m - top), p = expf(s - top);
            m = top;
            sum = sum * shrink + p;
            for (int e = 0; e < 4; ++e)
                if (lane + 32 * e < dim) acc[e] = acc[e] * shrink + p * vs[b][j][lane + 32 * e];
        }
        __syncthreads();
    }
    for (int e = 0; e < 4; ++e)
        if (i < seq && lane + 32 * e < dim) o[from + (size_t)i * dim + lane + 32 * e] = acc[e] / sum;
}
