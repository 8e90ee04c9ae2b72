// problem: attention
// style: one warp a query, keys one after another, running maximum; the accumulator lives in dynamic shared memory
// assay: launch flash grid=(seq, heads) block=(32) shared=(dim * 4) args=(q, k, v, o, seq, dim)

extern __shared__ float accumulator[];

__global__ void flash(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    const int lane = threadIdx.x;
    const size_t head = (size_t)blockIdx.y * seq;
    const float* query = q + (head + blockIdx.x) * dim;
    for (int d = lane; d < dim; d += 32) {
        accumulator[d] = 0.0f;
    }
    float top = -INFINITY, sum = 0.0f;
    for (int c = 0; c < seq; ++c) {
        float score = 0.0f;
        for (int d = lane; d < dim; d += 32) {
            score = fmaf(query[d], k[(head + c) * dim + d], score);
        }
        for (int mask = 16; mask > 0; mask >>= 1) {
            score += __shfl_xor_sync(0xffffffffu, score, mask);
        }
        score /= sqrtf((float)dim);
        const float higher = fmaxf(top, score);
        const float keep = expf(top - higher), weight = expf(score - higher);
        sum = sum * keep + weight;
        for (int d = lane; d < dim; d += 32) {
            accumulator[d] = accumulator[d] * keep + weight * v[(head + c) * dim + d];
        }
        top = higher;
    }
    for (int d = lane; d < dim; d += 32) {
        o[(head + blockIdx.x) * dim + d] = accumulator[d] / sum;
    }
}
