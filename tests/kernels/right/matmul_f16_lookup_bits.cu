// problem: matmul_f16
// assay: launch gemm_bits grid=(ceil_div(n, 128), ceil_div(m, 8)) block=(128) args=(a, b, c, m, n, k)
// style: no cuda_fp16.h at all: half bits widened by integer tricks (shift, multiply by 2^112), rounded to nearest even by hand
__device__ float widen(unsigned short h)
{
    const unsigned magnitude = (unsigned)(h & 0x7fff) << 13;
    const float v = __uint_as_float(magnitude) * __uint_as_float((254u - 15u) << 23);   // exact, subnormals included
    return __uint_as_float(__float_as_uint(v) | (unsigned)(h & 0x8000) << 16);
}

__device__ unsigned short narrow(float f)
{
    const unsigned bits = __float_as_uint(f), sign = bits >> 16 & 0x8000u, m = bits & 0x7fffffffu;
    if (m >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);
    if (m < 0x38800000u) {                            // subnormal: adding 0.5 rounds at 2^-24
        const float r = __uint_as_float(m) + 0.5f;
        return (unsigned short)(sign | (__float_as_uint(r) - 0x3f000000u));
    }
    const unsigned rounded = m + 0xfffu + (m >> 13 & 1u);
    return (unsigned short)(sign | (rounded - 0x38000000u) >> 13);
}

__global__ void gemm_bits(const unsigned short* a, const unsigned short* b, unsigned short* c, int m, int n, int k)
{
    const int col = blockIdx.x * 128 + threadIdx.x;
    if (col >= n) return;
    for (int row = blockIdx.y * 8; row < min(m, (int)blockIdx.y * 8 + 8); ++row) {
        float s = 0.0f;
        for (int l = 0; l < k; ++l) s += widen(a[(size_t)row * k + l]) * widen(b[(size_t)l * n + col]);
        c[(size_t)row * n + col] = narrow(s);
    }
}
