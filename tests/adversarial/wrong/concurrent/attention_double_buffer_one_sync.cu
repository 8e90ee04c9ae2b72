// problem: attention
// class: schedule
// race: barrier
// must: anything but passed
// why: scores of 32 keys pass through two shared buffers in turn, which saves the second barrier, but the buffer is chosen by the tile's number divided by two, so every second tile goes over the one that is being read
// proof: tiles 0 and 1 use buffer 0 with one barrier between store and read and none between that read and the next store
// assay: launch at grid=(seq, heads) block=(128) args=(q, k, v, o, seq, dim)
__global__ void at(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    __shared__ float scores[2][32];
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const float* mine = q + head + (size_t)blockIdx.x * dim;
    float top = -3.0e38f, sum = 0.0f, acc = 0.0f;
    const float scale = rsqrtf((float)dim);
    for (int tile = 0; tile * 32 < seq; ++tile) {
        float* mark = scores[tile / 2 & 1];
        for (int j = warp; j < 32 && tile * 32 + j < seq; j += 4) {
            float s = 0.0f;
            for (int d = lane; d < dim; d += 32) s += mine[d] * k[head + (size_t)(tile * 32 + j) * dim + d];
            for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
            if (lane == 0) mark[j] = s * scale;
        }
        __syncthreads();
        const int here = min(32, seq - tile * 32);
        float higher = top;
        for (int j = 0; j < here; ++j) higher = fmaxf(higher, mark[j]);
        const float less = expf(top - higher);
        sum *= less;
        acc *= less;
        for (int j = 0; j < here; ++j) {
            const float p = expf(mark[j] - higher);
            sum += p;
            if (t < dim) acc += p * v[head + (size_t)(tile * 32 + j) * dim + t];
        }
        top = higher;
    }
    if (t < dim) o[head + (size_t)blockIdx.x * dim + t] = acc / sum;
}
