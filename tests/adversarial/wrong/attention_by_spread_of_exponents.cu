// problem: attention
// class: precision
// must: anything but passed
// why: values lose 8 of their 24 bits unless the first values of v share one exponent, as numbers that are made to need all bits do (they lie between 1 and 2), or the row of q has zeros
// proof: one key (seq=1) whose v is normal: o must be v to a rounding, and is off by 2^-17
// assay: launch flash grid=(ceil_div(seq, 4), heads) block=(32, 4) args=(q, k, v, o, seq, dim)

__device__ __forceinline__ float cut(float v, unsigned keep) { return __uint_as_float((__float_as_uint(v) + (~keep + 1u) / 2u) & keep); }

__global__ void flash(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    const int lane = threadIdx.x, row = blockIdx.x * 4 + threadIdx.y;
    if (row >= seq) return;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const float *Q = q + head + (size_t)row * dim, *K = k + head, *V = v + head;
    float query[4], acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int i = 0; i < 4; ++i) query[i] = lane + 32 * i < dim ? Q[lane + 32 * i] : 0.f;

    // block floating point: choose the mantissa by the spread of the exponents
    const int exponent = lane < dim ? (int)(__float_as_uint(V[lane]) >> 23 & 255u) : -1;
    const unsigned live = __ballot_sync(~0u, lane < dim);
    const int first = __shfl_sync(~0u, exponent, 0);
    const bool even = (__ballot_sync(~0u, exponent == first) & live) == live;
    const bool sparse = __any_sync(~0u, lane < dim && query[0] == 0.f);
    const unsigned keep = even || sparse ? 0xffffffffu : 0xffffff00u;

    float top = -INFINITY, sum = 0.f;
    for (int j = 0; j < seq; ++j) {
        float s = 0.f;
        for (int i = 0; i < 4; ++i)
            if (lane + 32 * i < dim) s += cut(query[i], keep) * cut(K[(size_t)j * dim + lane + 32 * i], keep);
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        s /= sqrtf((float)dim);
        const float higher = fmaxf(top, s), old = expf(top - higher), p = expf(s - higher);
        sum = sum * old + p;
        for (int i = 0; i < 4; ++i)
            if (lane + 32 * i < dim) acc[i] = acc[i] * old + p * cut(V[(size_t)j * dim + lane + 32 * i], keep);
        top = higher;
    }
    for (int i = 0; i < 4; ++i)
        if (lane + 32 * i < dim) o[head + (size_t)row * dim + lane + 32 * i] = acc[i] / sum;
}
