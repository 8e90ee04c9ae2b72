// problem: attention
// attack: leaves out the division by the root of dim
// expect: incorrect
// because: dim is more than 1 in most trials
// assay: launch attend grid=(seq, heads) block=(32) shared=(seq * 4) args=(q, k, v, o, seq, dim)

__global__ void attend(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    const size_t head = (size_t)blockIdx.y * seq;
    const float* query = q + (head + blockIdx.x) * dim;
    extern __shared__ float scores[];
    for (int c = threadIdx.x; c < seq; c += 32) {
        float dot = 0.0f;
        for (int d = 0; d < dim; ++d) dot += query[d] * k[(head + c) * dim + d];
        scores[c] = dot;
    }
    __syncthreads();
    float top = -INFINITY, sum = 0.0f;
    for (int c = 0; c < seq; ++c) top = fmaxf(top, scores[c]);
    for (int c = 0; c < seq; ++c) sum += expf(scores[c] - top);
    for (int d = threadIdx.x; d < dim; d += 32) {
        float total = 0.0f;
        for (int c = 0; c < seq; ++c) total += expf(scores[c] - top) * v[(head + c) * dim + d];
        o[(head + blockIdx.x) * dim + d] = total / sum;
    }
}
