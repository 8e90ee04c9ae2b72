// expected: incorrect
// It leaves the scale of the scores out.
// assay: launch attention grid=(length, heads) block=(32) shared=4 * length args=(q, k, v, out, length, dim)

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out, int length, int dim)
{
    extern __shared__ float scores[];
    int head = blockIdx.y, row = blockIdx.x;
    const float* query = q + (head * length + row) * dim;
    for (int key = threadIdx.x; key < length; key += blockDim.x) {
        float sum = 0.0f;
        for (int i = 0; i < dim; ++i) sum += query[i] * k[(head * length + key) * dim + i];
        scores[key] = sum;
    }
    __syncthreads();
    float most = -INFINITY, total = 0.0f;
    for (int key = 0; key < length; ++key) most = fmaxf(most, scores[key]);
    for (int key = 0; key < length; ++key) total += expf(scores[key] - most);
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float sum = 0.0f;
        for (int key = 0; key < length; ++key) sum += expf(scores[key] - most) * v[(head * length + key) * dim + i];
        out[(head * length + row) * dim + i] = sum / total;
    }
}
