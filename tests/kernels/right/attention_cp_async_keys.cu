// problem: attention
// assay: launch attend_async grid=(ceil_div(seq, 8), heads) block=(32, 8) shared=(4 * 16 * dim * 4) args=(q, k, v, o, seq, dim)
// style: keys and values of sixteen in two buffers by cuda_pipeline primitives, a warp a query, weights handed round by shuffles
#include <cuda_pipeline.h>

__global__ void attend_async(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    extern __shared__ float pool[];
    const int lane = threadIdx.x, t = threadIdx.y * 32 + lane, i = blockIdx.x * 8 + threadIdx.y;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    float* const ks[2] = {pool, pool + 16 * dim};
    float* const vs[2] = {pool + 32 * dim, pool + 48 * dim};
    auto fetch = [&](int step) {
        const int j0 = step * 16, count = min(16, seq - j0) * dim;
        for (int e = t; e < count; e += 256) {
            __pipeline_memcpy_async(&ks[step & 1][e], k + head + (size_t)j0 * dim + e, 4);
            __pipeline_memcpy_async(&vs[step & 1][e], v + head + (size_t)j0 * dim + e, 4);
        }
        __pipeline_commit();
    };
    float query[4], acc[4] = {}, top = -INFINITY, sum = 0.0f;
    for (int c = 0; c < 4; ++c) query[c] = i < seq && lane + 32 * c < dim ? q[head + (size_t)i * dim + lane + 32 * c] : 0.0f;
    const int steps = (seq + 15) / 16;
    const float scale = rsqrtf((float)dim);
    fetch(0);
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) {
            fetch(step + 1);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        const float* kk = ks[step & 1];
        const float* vv = vs[step & 1];
        const int count = min(16, seq - step * 16);
        for (int j = 0; j < count; ++j) {
            float s = 0.0f;
            for (int c = 0; c < 4; ++c)
                if (lane + 32 * c < dim) s += query[c] * kk[j * dim + lane + 32 * c];
            for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
            s *= scale;
            const float higher = fmaxf(top, s), down = expf(top - higher), p = expf(s - higher);
            top = higher;
            sum = sum * down + p;
            for (int c = 0; c < 4; ++c)
                if (lane + 32 * c < dim) acc[c] = acc[c] * down + p * vv[j * dim + lane + 32 * c];
        }
        __syncthreads();
    }
    if (i < seq)
        for (int c = 0; c < 4; ++c)
            if (lane + 32 * c < dim) o[head + (size_t)i * dim + lane + 32 * c] = acc[c] / sum;
}
