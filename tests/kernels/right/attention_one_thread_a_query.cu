// problem: attention
// assay: launch attend grid=(ceil_div(seq, 32), heads) block=(32) args=(q, k, v, o, seq, dim)
// style: one thread a query, online softmax, the accumulator a local array of 128
__global__ void attend(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= seq) return;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const float* Q = q + head + (size_t)i * dim;
    float acc[128];
    for (int d = 0; d < dim; ++d) acc[d] = 0.0f;
    float m = -INFINITY, l = 0.0f;
    const float scale = 1.0f / sqrtf((float)dim);
    for (int j = 0; j < seq; ++j) {
        const float* K = k + head + (size_t)j * dim;
        const float* V = v + head + (size_t)j * dim;
        float s = 0.0f;
        for (int d = 0; d < dim; ++d) s += Q[d] * K[d];
        s *= scale;
        const float m_new = fmaxf(m, s);
        const float alpha = expf(m - m_new), p = expf(s - m_new);
        l = l * alpha + p;
        for (int d = 0; d < dim; ++d) acc[d] = acc[d] * alpha + p * V[d];
        m = m_new;
    }
    for (int d = 0; d < dim; ++d) o[head + (size_t)i * dim + d] = acc[d] / l;
}
