// problem: attention
// assay: temp tops float32 (4, heads * seq)
// assay: temp sums float32 (4, heads * seq)
// assay: temp outs float32 (4, heads * seq, dim)
// assay: launch slice grid=(ceil_div(heads * seq, 4), 4) block=(32, 4) args=(q, k, v, tops, sums, outs, heads * seq, seq, dim)
// assay: launch join grid=(ceil_div(heads * seq * dim, 256)) block=(256) args=(tops, sums, outs, o, heads * seq, dim)
// style: flash decoding: the keys in four slices, a warp a query and slice, partial results joined by a second launch
__global__ void slice(const float* q, const float* k, const float* v, float* tops, float* sums, float* outs, int rows, int seq, int dim)
{
    const int row = blockIdx.x * 4 + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    const size_t head = (size_t)(row / seq) * seq * dim;
    const int each = (seq + 3) / 4, begin = min(seq, (int)blockIdx.y * each), end = min(seq, begin + each);
    float mine[4], acc[4] = {};
    for (int i = 0; i < 4; ++i) mine[i] = lane + 32 * i < dim ? q[(size_t)row * dim + lane + 32 * i] : 0.0f;
    float top = -1e38f, sum = 0.0f;
    const float root = sqrtf((float)dim);
    for (int j = begin; j < end; ++j) {
        float s = 0.0f;
        for (int i = 0; i < 4; ++i)
            if (lane + 32 * i < dim) s += mine[i] * k[head + (size_t)j * dim + lane + 32 * i];
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        s /= root;
        if (s > top) {
            const float down = expf(top - s);
            sum *= down;
            for (int i = 0; i < 4; ++i) acc[i] *= down;
            top = s;
        }
        const float p = expf(s - top);
        sum += p;
        for (int i = 0; i < 4; ++i)
            if (lane + 32 * i < dim) acc[i] += p * v[head + (size_t)j * dim + lane + 32 * i];
    }
    const size_t at = (size_t)blockIdx.y * rows + row;
    for (int i = 0; i < 4; ++i)
        if (lane + 32 * i < dim) outs[at * dim + lane + 32 * i] = acc[i];
    if (lane == 0) {
        tops[at] = top;
        sums[at] = sum;
    }
}

__global__ void join(const float* tops, const float* sums, const float* outs, float* o, int rows, int dim)
{
    const int e = blockIdx.x * 256 + threadIdx.x;
    if (e >= rows * dim) return;
    const int row = e / dim;
    float top = tops[row], total = 0.0f, out = 0.0f;
    for (int s = 1; s < 4; ++s) top = fmaxf(top, tops[(size_t)s * rows + row]);
    for (int s = 0; s < 4; ++s) {
        const size_t at = (size_t)s * rows + row;
        const float w = expf(tops[at] - top);
        total += w * sums[at];
        out += w * outs[at * dim + e % dim];
    }
    o[e] = out / total;
}
