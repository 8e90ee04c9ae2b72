// problem: attention
// style: --use_fast_math: scores in a temporary, a softmax of them in place with expf and a division, then a product
// flags: --use_fast_math
// assay: temp s float32 (heads * seq, seq)
// assay: launch scores grid=(ceil_div(seq, 16), ceil_div(seq, 16), heads) block=(16, 16) args=(q, k, s, seq, dim)
// assay: launch normalise grid=(heads * seq) block=(64) args=(s, seq)
// assay: launch weigh grid=(ceil_div(dim, 32), seq, heads) block=(32) args=(s, v, o, seq, dim)
__global__ void scores(const float* q, const float* k, float* s, int seq, int dim)
{
    const int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= seq || j >= seq) return;
    const size_t head = (size_t)blockIdx.z * seq;
    float sum = 0.0f;
    for (int d = 0; d < dim; ++d) sum += q[(head + i) * dim + d] * k[(head + j) * dim + d];
    s[(head + i) * seq + j] = sum / sqrtf((float)dim);
}

__global__ void normalise(float* s, int seq)
{
    __shared__ float t[64];
    float* row = s + (size_t)blockIdx.x * seq;
    float top = -1e38f;
    for (int j = threadIdx.x; j < seq; j += 64) top = fmaxf(top, row[j]);
    t[threadIdx.x] = top;
    for (int d = 32; d; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) t[threadIdx.x] = fmaxf(t[threadIdx.x], t[threadIdx.x + d]);
    }
    __syncthreads();
    top = t[0];
    __syncthreads();
    float sum = 0.0f;
    for (int j = threadIdx.x; j < seq; j += 64) sum += row[j] = expf(row[j] - top);
    t[threadIdx.x] = sum;
    for (int d = 32; d; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) t[threadIdx.x] += t[threadIdx.x + d];
    }
    __syncthreads();
    for (int j = threadIdx.x; j < seq; j += 64) row[j] = row[j] / t[0];
}

__global__ void weigh(const float* s, const float* v, float* o, int seq, int dim)
{
    const int d = blockIdx.x * 32 + threadIdx.x;
    const size_t head = (size_t)blockIdx.z * seq, i = head + blockIdx.y;
    if (d >= dim) return;
    float sum = 0.0f;
    for (int j = 0; j < seq; ++j) sum += s[i * seq + j] * v[(head + j) * dim + d];
    o[i * dim + d] = sum;
}
