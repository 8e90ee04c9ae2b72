// problem: attention
// class: sizes
// must: anything but passed
// why: the number of tiles of 64 keys is rounded up with tile - 2: a single key in the last tile is never looked at
// proof: assay grade --size seq=65 refuses it
// assay: launch attend grid=(seq, heads) block=(32) args=(q, k, v, o, seq, dim)

constexpr int TILE = 64;

__global__ void attend(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    const size_t base = (size_t)blockIdx.y * seq * dim;
    const float* query = q + base + (size_t)blockIdx.x * dim;
    float* out = o + base + (size_t)blockIdx.x * dim;
    for (int d = threadIdx.x; d < dim; d += 32) out[d] = 0.0f;
    const float scale = rsqrtf((float)dim);
    float top = -INFINITY, sum = 0.0f;
    const int tiles = max((seq + TILE - 2) / TILE, 1);
    for (int key = 0; key < min(tiles * TILE, seq); ++key) {
        float score = 0.0f;
        for (int d = threadIdx.x; d < dim; d += 32) score = fmaf(query[d], k[base + (size_t)key * dim + d], score);
        for (int lane = 16; lane > 0; lane /= 2) score += __shfl_xor_sync(0xffffffffu, score, lane);
        const float higher = fmaxf(top, score * scale);
        const float shrink = expf(top - higher), weight = expf(score * scale - higher);
        sum = sum * shrink + weight;
        for (int d = threadIdx.x; d < dim; d += 32) {
            out[d] = out[d] * shrink + weight * v[base + (size_t)key * dim + d];
        }
        top = higher;
    }
    for (int d = threadIdx.x; d < dim; d += 32) out[d] /= sum;
}
