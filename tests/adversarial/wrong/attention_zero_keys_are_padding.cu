// problem: attention
// class: contents
// must: anything but passed
// why: keys whose first 32 elements are zero are taken for padding and masked, though the problem has no mask: such a key scores what its other elements say, or 0
// proof: k with one row of zeros: its weight exp(0) is missing from the sum
// assay: launch attend grid=(seq, heads) block=(128) args=(q, k, v, o, seq, dim)

__global__ void attend(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    __shared__ float p[128], qs[128], stat[2];
    const int t = threadIdx.x;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const float* query = q + head + (size_t)blockIdx.x * dim;
    if (t < dim) qs[t] = query[t];
    float top = -1e38f, sum = 0.f, acc = 0.f;
    for (int base = 0; base < seq; base += 128) {
        __syncthreads();
        float s = -1e38f;
        if (base + t < seq) {
            const float* key = k + head + (size_t)(base + t) * dim;
            bool padding = dim >= 32;
            for (int d = 0; padding && d < 32; ++d) padding = key[d] == 0.f;
            if (!padding) {
                s = 0.f;
                for (int d = 0; d < dim; ++d) s = fmaf(qs[d], key[d], s);
                s /= sqrtf((float)dim);
            }
        }
        p[t] = s;
        __syncthreads();
        if (t == 0) {
            float m = top;
            for (int j = 0; j < 128; ++j) m = fmaxf(m, p[j]);
            stat[0] = m;
        }
        __syncthreads();
        const float m = stat[0], old = expf(top - m);
        acc *= old;
        sum *= old;
        for (int j = 0; j < min(128, seq - base); ++j) {
            const float w = p[j] > -1e37f ? expf(p[j] - m) : 0.f;
            sum += w;
            if (t < dim) acc += w * v[head + (size_t)(base + j) * dim + t];
        }
        top = m;
    }
    if (t < dim) o[head + (size_t)blockIdx.x * dim + t] = acc / sum;
}
