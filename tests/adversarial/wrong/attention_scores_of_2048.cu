// problem: attention
// class: sizes
// must: anything but passed
// why: the scores of a query lie in an array of 2,048 floats (the timed sequence); keys behind are silently left out, though sequences of 16,384 are allowed
// proof: assay grade --size heads=1 --size seq=2100 --size dim=8 refuses it
// assay: launch mha grid=(seq, heads) block=(128) args=(q, k, v, o, seq, dim)

#define MAX_SEQ 2048

__global__ void mha(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    __shared__ float score[MAX_SEQ];
    __shared__ float query[128];
    __shared__ float reduced[4];
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int keys = seq < MAX_SEQ ? seq : MAX_SEQ;
    const float scale = rsqrtf((float)dim);

    if (tid < dim) query[tid] = q[head + (size_t)blockIdx.x * dim + tid];
    __syncthreads();

    float top = -INFINITY;
    for (int j = tid; j < keys; j += 128) {
        const float* key = k + head + (size_t)j * dim;
        float dot = 0.0f;
        for (int d = 0; d < dim; ++d) dot += query[d] * key[d];
        dot *= scale;
        score[j] = dot;
        top = fmaxf(top, dot);
    }
    for (int s = 16; s; s >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, s));
    if (lane == 0) reduced[warp] = top;
    __syncthreads();
    top = fmaxf(fmaxf(reduced[0], reduced[1]), fmaxf(reduced[2], reduced[3]));
    __syncthreads();

    float sum = 0.0f;
    for (int j = tid; j < keys; j += 128) {
        score[j] = expf(score[j] - top);
        sum += score[j];
    }
    for (int s = 16; s; s >>= 1) sum += __shfl_xor_sync(~0u, sum, s);
    if (lane == 0) reduced[warp] = sum;
    __syncthreads();
    sum = reduced[0] + reduced[1] + reduced[2] + reduced[3];

    if (tid < dim) {
        float acc = 0.0f;
        for (int j = 0; j < keys; ++j) acc += score[j] * v[head + (size_t)j * dim + tid];
        o[head + (size_t)blockIdx.x * dim + tid] = acc / sum;
    }
}
