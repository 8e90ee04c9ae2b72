// problem: attention
// style: keys in three parts, a normalised output and a log-sum-exp of each; joined by exp(lse - all) as ring attention does
// assay: temp part float32 (3, heads * seq, dim)
// assay: temp lse float32 (3, heads * seq)
// assay: launch parts grid=(seq, heads, 3) block=(64) args=(q, k, v, part, lse, heads, seq, dim)
// assay: launch ring grid=(heads * seq) block=(64) args=(part, lse, o, heads * seq, dim)
__global__ void parts(const float* q, const float* k, const float* v, float* part, float* lse, int heads, int seq, int dim)
{
    __shared__ float s;
    const int size = (seq + 2) / 3, first = blockIdx.z * size, last = min(seq, first + size);
    const size_t head = (size_t)blockIdx.y * seq, at = (size_t)blockIdx.z * heads * seq + head + blockIdx.x;
    float top = -INFINITY, sum = 0.0f, out[2] = {};
    for (int j = first; j < last; ++j) {
        if (threadIdx.x < 32) {
            float dot = 0.0f;
            for (int d = threadIdx.x; d < dim; d += 32)
                dot += q[(head + blockIdx.x) * dim + d] * k[(head + j) * dim + d];
            for (int d = 16; d; d /= 2) dot += __shfl_xor_sync(~0u, dot, d);
            if (threadIdx.x == 0) s = dot * rsqrtf((float)dim);
        }
        __syncthreads();
        const float high = fmaxf(top, s), keep = expf(top - high), p = expf(s - high);
        sum = fmaf(sum, keep, p);
        for (int e = 0; e < 2; ++e) {
            const int d = threadIdx.x + 64 * e;
            if (d < dim) out[e] = fmaf(out[e], keep, p * v[(head + j) * dim + d]);
        }
        top = high;
        __syncthreads();
    }
    for (int e = 0; e < 2; ++e)
        if (threadIdx.x + 64 * e < dim) part[at * dim + threadIdx.x + 64 * e] = sum > 0.0f ? out[e] / sum : 0.0f;
    if (threadIdx.x == 0) lse[at] = sum > 0.0f ? top + logf(sum) : -INFINITY;
}

__global__ void ring(const float* part, const float* lse, float* o, int rows, int dim)
{
    const size_t row = blockIdx.x;
    const float a = lse[row], b = lse[rows + row], c = lse[2 * (size_t)rows + row], top = fmaxf(a, fmaxf(b, c));
    const float all = top + logf(expf(a - top) + expf(b - top) + expf(c - top));
    for (int d = threadIdx.x; d < dim; d += 64)
        o[row * dim + d] = expf(a - all) * part[row * dim + d] + expf(b - all) * part[(rows + row) * dim + d] +
                           expf(c - all) * part[(2 * (size_t)rows + row) * dim + d];
}
