// problem: attention
// attack: rounds queries, keys and values to TF32
// expect: incorrect
// because: the probes hold values that differ below this precision
// assay: launch attend grid=(seq, heads) block=(32) shared=(seq * 4) args=(q, k, v, o, seq, dim)

__device__ float low(float v)
{
    return __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u);
}

__global__ void attend(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    const size_t head = (size_t)blockIdx.y * seq;
    const float* query = q + (head + blockIdx.x) * dim;
    extern __shared__ float scores[];
    for (int c = threadIdx.x; c < seq; c += 32) {
        float dot = 0.0f;
        for (int d = 0; d < dim; ++d) dot += low(query[d]) * low(k[(head + c) * dim + d]);
        scores[c] = dot / sqrtf((float)dim);
    }
    __syncthreads();
    float top = -INFINITY, sum = 0.0f;
    for (int c = 0; c < seq; ++c) top = fmaxf(top, scores[c]);
    for (int c = 0; c < seq; ++c) sum += expf(scores[c] - top);
    for (int d = threadIdx.x; d < dim; d += 32) {
        float total = 0.0f;
        for (int c = 0; c < seq; ++c) total += expf(scores[c] - top) * low(v[(head + c) * dim + d]);
        o[(head + blockIdx.x) * dim + d] = total / sum;
    }
}
