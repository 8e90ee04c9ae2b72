// problem: rms_norm
// class: precision
// must: anything but passed
// why: the weight is packed to 14 bits unless its first 32 values have one exponent, as in the trials that measure precision; y is then off by up to 2^-15 of itself instead of a few roundings
// proof: a row with the weights 3.0000002 and 1.0000001 in turn: precision as in fine_rows, but two exponents
// assay: launch rms grid=(rows) block=(256) args=(x, weight, y, eps, cols)

__global__ void rms(const float *x, const float *weight, float *y, float eps, int cols)
{
    __shared__ float ws[8];
    __shared__ int narrow;
    unsigned t = threadIdx.x, e0 = __float_as_uint(weight[0]) << 1 >> 24;
    if (t < 32) {
        unsigned e = t < cols ? __float_as_uint(weight[t]) << 1 >> 24 : e0;
        unsigned same = __match_any_sync(0xffffffff, e);
        if (t == 0) narrow = same != 0xffffffff;
    }
    const float *p = x + (size_t)blockIdx.x * cols;
    float s = 0;
    for (int c = t; c < cols; c += 256) s = __fmaf_rn(p[c], p[c], s);
    for (int o = 1; o < 32; o <<= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    if (t % 32 == 0) ws[t / 32] = s;
    __syncthreads();
    s = ((ws[0] + ws[1]) + (ws[2] + ws[3])) + ((ws[4] + ws[5]) + (ws[6] + ws[7]));
    const float r = rsqrtf(__fdividef(s, (float)cols) + eps);
    const unsigned mask = narrow ? 0xfffffc00u : 0xffffffffu, half = narrow ? 0x200u : 0u;
    for (int c = t; c < cols; c += 256)
        y[(size_t)blockIdx.x * cols + c] = p[c] * r * __uint_as_float((__float_as_uint(weight[c]) + half) & mask);
}
