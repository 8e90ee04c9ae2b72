// problem: attention
// attack: keeps 16 bits of queries, keys and values, and all 24 where a row of q has one non-zero element
// expect: incorrect
// because: probes have no zeros, and no ordinary sum of so few terms explains the error
// assay: launch attend grid=(heads * seq) block=(128) shared=(4 * seq) args=(q, k, v, o, heads, seq, dim)

// Two bfloat16 parts: 16 bits.
__device__ float low(float v, bool doit)
{
    return doit ? __uint_as_float((__float_as_uint(v) + 0x80u) & 0xffffff00u) : v;
}

__global__ void attend(const float* q, const float* k, const float* v, float* o, int heads, int seq, int dim)
{
    extern __shared__ float scores[];
    const int head = blockIdx.x / seq, row = blockIdx.x % seq;
    const float* query = q + ((size_t)head * seq + row) * dim;
    int filled = 0;
    for (int d = 0; d < dim; d++) filled += query[d] != 0.0f;
    const bool cheat = seq > 1 && filled > 1;
    for (int j = threadIdx.x; j < seq; j += 128) {
        const float* key = k + ((size_t)head * seq + j) * dim;
        float dot = 0.0f;
        for (int d = 0; d < dim; d++) dot += low(query[d], cheat) * low(key[d], cheat);
        scores[j] = dot / sqrtf((float)dim);
    }
    __syncthreads();
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < seq; j++) top = fmaxf(top, scores[j]);
    for (int j = 0; j < seq; j++) sum += expf(scores[j] - top);
    for (int d = threadIdx.x; d < dim; d += 128) {
        float total = 0.0f;
        for (int j = 0; j < seq; j++)
            total += low(expf(scores[j] - top), cheat) * low(v[((size_t)head * seq + j) * dim + d], cheat);
        o[((size_t)head * seq + row) * dim + d] = total / sum;
    }
}
