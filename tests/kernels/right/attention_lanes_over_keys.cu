// problem: attention
// assay: launch attend_warp grid=(ceil_div(seq, 4), heads) block=(32, 4) args=(q, k, v, o, seq, dim)
// style: a warp a query: 32 keys at once, a lane each; then each lane's weight is shuffled to all, which hold output columns
__global__ void attend_warp(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ o, int seq, int dim)
{
    __shared__ float query[4][128];
    const int lane = threadIdx.x, w = threadIdx.y, i = blockIdx.x * 4 + w;
    if (i >= seq) return;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    for (int d = lane; d < dim; d += 32) query[w][d] = q[head + (size_t)i * dim + d] / sqrtf((float)dim);
    __syncwarp();
    float acc[4] = {}, top = -INFINITY, sum = 0.0f;
    for (int j0 = 0; j0 < seq; j0 += 32) {
        float s = -INFINITY;
        if (j0 + lane < seq) {
            s = 0.0f;
            for (int d = 0; d < dim; ++d) s += query[w][d] * k[head + (size_t)(j0 + lane) * dim + d];
        }
        float higher = s;
        for (int d = 16; d; d >>= 1) higher = fmaxf(higher, __shfl_xor_sync(0xffffffffu, higher, d));
        higher = fmaxf(higher, top);
        const float down = expf(top - higher), p = expf(s - higher);
        top = higher;
        sum = sum * down + p;
        for (int c = 0; c < 4; ++c) acc[c] *= down;
        const int count = min(32, seq - j0);
        for (int t = 0; t < count; ++t) {
            const float weight = __shfl_sync(0xffffffffu, p, t);
            for (int c = 0; c < 4; ++c)
                if (lane + 32 * c < dim) acc[c] += weight * v[head + (size_t)(j0 + t) * dim + lane + 32 * c];
        }
    }
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    for (int c = 0; c < 4; ++c)
        if (lane + 32 * c < dim) o[head + (size_t)i * dim + lane + 32 * c] = acc[c] / sum;
}
