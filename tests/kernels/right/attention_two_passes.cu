// problem: attention
// assay: temp stats float32 (heads * seq, 2)
// assay: launch statistics grid=(ceil_div(seq, 8), heads) block=(256) args=(q, k, stats, seq, dim)
// assay: launch weighted grid=(seq, heads) block=(64) args=(q, k, v, stats, o, seq, dim)
// style: two passes over the keys: maximum and sum as float2 in a temporary, then the weights are computed again
__device__ float score(const float* a, const float* b, int dim)
{
    float s0 = 0.0f, s1 = 0.0f;
    int d = 0;
    for (; d + 1 < dim; d += 2) {
        s0 = fmaf(a[d], b[d], s0);
        s1 = fmaf(a[d + 1], b[d + 1], s1);
    }
    if (d < dim) s0 = fmaf(a[d], b[d], s0);
    return (s0 + s1) * rsqrtf((float)dim);
}

__global__ void statistics(const float* q, const float* k, float2* stats, int seq, int dim)
{
    const int i = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (i >= seq) return;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    float top = -INFINITY, sum = 0.0f;
    for (int j = lane; j < seq; j += 32) {
        const float s = score(q + head + (size_t)i * dim, k + head + (size_t)j * dim, dim);
        const float higher = fmaxf(top, s);
        sum = sum * expf(top - higher) + expf(s - higher);
        top = higher;
    }
    for (int d = 16; d; d >>= 1) {
        const float other = __shfl_xor_sync(~0u, top, d), more = __shfl_xor_sync(~0u, sum, d), higher = fmaxf(top, other);
        const float mine = sum > 0.0f ? sum * expf(top - higher) : 0.0f, theirs = more > 0.0f ? more * expf(other - higher) : 0.0f;
        sum = mine + theirs;
        top = higher;
    }
    if (lane == 0) stats[(size_t)blockIdx.y * seq + i] = make_float2(top, sum);
}

__global__ void weighted(const float* q, const float* k, const float* v, const float2* stats, float* o, int seq, int dim)
{
    __shared__ float p[64];
    const int i = blockIdx.x;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const float2 s = stats[(size_t)blockIdx.y * seq + i];
    float out[2] = {0.0f, 0.0f};
    for (int j0 = 0; j0 < seq; j0 += 64) {
        const int j = j0 + threadIdx.x;
        p[threadIdx.x] = j < seq ? expf(score(q + head + (size_t)i * dim, k + head + (size_t)j * dim, dim) - s.x) : 0.0f;
        __syncthreads();
        for (int h = 0; h < 2; ++h) {
            const int d = threadIdx.x + 64 * h;
            if (d < dim)
                for (int t = 0; t < min(64, seq - j0); ++t) out[h] += p[t] * v[head + (size_t)(j0 + t) * dim + d];
        }
        __syncthreads();
    }
    for (int h = 0; h < 2; ++h)
        if (threadIdx.x + 64 * h < dim) o[head + (size_t)i * dim + threadIdx.x + 64 * h] = out[h] / s.y;
}
