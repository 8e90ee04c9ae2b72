// problem: softmax
// style: no maximum at all: each exp is a mantissa and an integer exponent, sums are kept as pairs (two-pass softmax), joined by ldexpf
// assay: launch softmax_pairs grid=(rows) block=(128) args=(x, y, cols)
struct Wide {
    float m, e;  // m * 2^e
};

__device__ Wide wide_exp(float v)
{
    const float e = rintf(v * 1.442695041f);
    const float r = fmaf(e, -0.693147182f, v), s = fmaf(e, 1.90465421e-9f, r);
    return {expf(s), e};
}

__device__ Wide add(Wide a, Wide b)
{
    const float e = fmaxf(a.e, b.e);
    return {a.m * exp2f(a.e - e) + b.m * exp2f(b.e - e), e};
}

__global__ void softmax_pairs(const float* x, float* y, int cols)
{
    __shared__ Wide s[128];
    const float* in = x + (size_t)blockIdx.x * cols;
    Wide sum = {0.0f, -3.0e38f};
    for (int j = threadIdx.x; j < cols; j += 128) sum = add(sum, wide_exp(in[j]));
    s[threadIdx.x] = sum;
    for (int d = 64; d; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) s[threadIdx.x] = add(s[threadIdx.x], s[threadIdx.x + d]);
    }
    __syncthreads();
    const Wide all = s[0];
    const float scale = 1.0f / all.m;
    for (int j = threadIdx.x; j < cols; j += 128) {
        const Wide v = wide_exp(in[j]);
        y[(size_t)blockIdx.x * cols + j] = v.m * scale * exp2f(v.e - all.e);
    }
}
