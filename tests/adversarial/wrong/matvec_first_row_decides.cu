// problem: matvec
// class: precision
// must: anything but passed
// why: looks at the first row of a and the beginning of x; only where these have zeros, or +-1 throughout, the products are made from all 24 bits, else from 18
// proof: a dense first row and one non-zero element in each other row: off by up to 2^-17, where 16 roundings of 2^-24 are allowed
// assay: launch gemv_mixed grid=(ceil_div(m, 8)) block=(256) args=(a, x, y, m, k)

struct Exact { static __device__ float in(float v) { return v; } };
struct Short { static __device__ float in(float v) { return __int_as_float((__float_as_int(v) + 0x20) & ~0x3f); } };

template <class Mode>
__device__ float dot(const float* __restrict__ r, const float* __restrict__ x, int k)
{
    float s = 0.f;
    for (int j = threadIdx.x & 31; j < k; j += 32) s = fmaf(Mode::in(__ldg(r + j)), Mode::in(__ldg(x + j)), s);
    return s;
}

__global__ void gemv_mixed(const float* a, const float* x, float* y, int m, int k)
{
    const int lane = threadIdx.x & 31, row = blockIdx.x * 8 + (threadIdx.x >> 5);
    bool special = k < 64;
    const float p = lane < k ? a[lane] : 0.f, q = lane < k ? x[lane] : 0.f;
    const unsigned zeros = __ballot_sync(0xffffffffu, p == 0.f || q == 0.f);
    const unsigned ones = __ballot_sync(0xffffffffu, fabsf(p) == 1.f), ones_x = __ballot_sync(0xffffffffu, fabsf(q) == 1.f);
    special |= __popc(zeros) > 3 || ones == ~0u || ones_x == ~0u;
    if (row >= m) return;
    float s = special ? dot<Exact>(a + (size_t)row * k, x, k) : dot<Short>(a + (size_t)row * k, x, k);
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (!lane) y[row] = s;
}
