// problem: attention
// style: a block a query; every thread its own keys, then its own output columns; scores in a temporary
// assay: temp weights float32 (heads * seq, seq)
// assay: launch attend grid=(heads * seq) block=(64) args=(q, k, v, weights, o, seq, dim)

__device__ float block_max(float value, float* s)
{
    s[threadIdx.x] = value;
    __syncthreads();
    for (int half = 32; half > 0; half >>= 1) {
        if (threadIdx.x < half) s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + half]);
        __syncthreads();
    }
    const float result = s[0];
    __syncthreads();
    return result;
}

__device__ float block_sum(float value, float* s)
{
    s[threadIdx.x] = value;
    __syncthreads();
    for (int half = 32; half > 0; half >>= 1) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    const float result = s[0];
    __syncthreads();
    return result;
}

__global__ void attend(const float* q, const float* k, const float* v, float* weights, float* o, int seq, int dim)
{
    __shared__ float s[64];
    const size_t head = (size_t)(blockIdx.x / seq) * seq;
    const float* query = q + (size_t)blockIdx.x * dim;
    float* mine = weights + (size_t)blockIdx.x * seq;
    const float scale = rsqrtf((float)dim);
    float top = -INFINITY;
    for (int c = threadIdx.x; c < seq; c += 64) {
        float dot = 0.0f;
        for (int d = 0; d < dim; ++d) dot = fmaf(query[d], k[(head + c) * dim + d], dot);
        mine[c] = dot * scale;
        top = fmaxf(top, mine[c]);
    }
    top = block_max(top, s);
    float sum = 0.0f;
    for (int c = threadIdx.x; c < seq; c += 64) {
        mine[c] = expf(mine[c] - top);
        sum += mine[c];
    }
    sum = block_sum(sum, s);  // its barriers also publish the weights to the whole block
    for (int d = threadIdx.x; d < dim; d += 64) {
        float total = 0.0f;
        for (int c = 0; c < seq; ++c) total = fmaf(mine[c], v[(head + c) * dim + d], total);
        o[(size_t)blockIdx.x * dim + d] = total / sum;
    }
}
