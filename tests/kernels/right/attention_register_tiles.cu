// problem: attention
// assay: launch flash_tiles grid=(ceil_div(seq, 16), heads) block=(16, 16) shared=((16 * dim * 3 + 16 * 17) * 4) args=(q, k, v, o, seq, dim)
// style: tiles of 16 queries by 16 keys as a small product; rows reduce over half-warps; the output in registers by sixteenths
__global__ void flash_tiles(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    extern __shared__ float pool[];
    float* qs = pool;
    float* ks = qs + 16 * dim;
    float* vs = ks + 16 * dim;
    float* ps = vs + 16 * dim;
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx, i0 = blockIdx.x * 16;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const float scale = rsqrtf((float)dim);
    for (int e = t; e < 16 * dim; e += 256) qs[e] = i0 + e / dim < seq ? q[head + (size_t)i0 * dim + e] : 0.0f;
    float acc[8] = {}, top = -INFINITY, sum = 0.0f;
    for (int j0 = 0; j0 < seq; j0 += 16) {
        __syncthreads();
        for (int e = t; e < 16 * dim; e += 256) {
            const bool inside = j0 + e / dim < seq;
            ks[e] = inside ? k[head + (size_t)j0 * dim + e] : 0.0f;
            vs[e] = inside ? v[head + (size_t)j0 * dim + e] : 0.0f;
        }
        __syncthreads();
        float s = 0.0f;
        for (int d = 0; d < dim; ++d) s += qs[ty * dim + d] * ks[tx * dim + d];
        s = j0 + tx < seq ? s * scale : -INFINITY;
        float higher = s;
        for (int d = 8; d; d >>= 1) higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, d, 16));
        higher = fmaxf(higher, top);
        const float p = expf(s - higher), down = expf(top - higher);
        float row = p;
        for (int d = 8; d; d >>= 1) row += __shfl_xor_sync(~0u, row, d, 16);
        sum = sum * down + row;
        top = higher;
        ps[ty * 17 + tx] = p;
        __syncwarp();
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const int d = tx + 16 * c;
            if (d < dim) {
                float add = 0.0f;
                for (int j = 0; j < 16; ++j) add += ps[ty * 17 + j] * vs[j * dim + d];
                acc[c] = acc[c] * down + add;
            }
        }
    }
    for (int c = 0; c < 8; ++c)
        if (i0 + ty < seq && tx + 16 * c < dim) o[head + (size_t)(i0 + ty) * dim + tx + 16 * c] = acc[c] / sum;
}
