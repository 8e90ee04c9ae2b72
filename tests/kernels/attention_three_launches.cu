// problem: attention
// style: scores, softmax and weighted sum in three launches over one temporary
// assay: temp scores float32 (heads, seq, seq)
// assay: launch score grid=(ceil_div(seq, 64), seq, heads) block=(64) args=(q, k, scores, seq, dim)
// assay: launch normalise grid=(heads * seq) block=(32) args=(scores, seq)
// assay: launch weigh grid=(ceil_div(dim, 32), seq, heads) block=(32) args=(scores, v, o, seq, dim)

__global__ void score(const float* q, const float* k, float* scores, int seq, int dim)
{
    const int column = blockIdx.x * 64 + threadIdx.x;
    if (column < seq) {
        const float* qr = q + ((size_t)blockIdx.z * seq + blockIdx.y) * dim;
        const float* kr = k + ((size_t)blockIdx.z * seq + column) * dim;
        float sum = 0.0f;
        for (int d = 0; d < dim; ++d) {
            sum += qr[d] * kr[d];
        }
        scores[((size_t)blockIdx.z * seq + blockIdx.y) * seq + column] = sum / sqrtf((float)dim);
    }
}

__global__ void normalise(float* scores, int seq)
{
    float* row = scores + (size_t)blockIdx.x * seq;
    float top = -INFINITY;
    for (int c = threadIdx.x; c < seq; c += 32) top = fmaxf(top, row[c]);
    for (int mask = 16; mask; mask >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, mask));
    float sum = 0.0f;
    for (int c = threadIdx.x; c < seq; c += 32) {
        row[c] = expf(row[c] - top);
        sum += row[c];
    }
    for (int mask = 16; mask; mask >>= 1) sum += __shfl_xor_sync(~0u, sum, mask);
    for (int c = threadIdx.x; c < seq; c += 32) row[c] /= sum;
}

__global__ void weigh(const float* scores, const float* v, float* o, int seq, int dim)
{
    const int d = blockIdx.x * 32 + threadIdx.x;
    if (d < dim) {
        const size_t row = (size_t)blockIdx.z * seq + blockIdx.y;
        float sum = 0.0f;
        for (int c = 0; c < seq; ++c) {
            sum += scores[row * seq + c] * v[((size_t)blockIdx.z * seq + c) * dim + d];
        }
        o[row * dim + d] = sum;
    }
}
