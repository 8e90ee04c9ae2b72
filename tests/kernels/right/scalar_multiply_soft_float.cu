// problem: scalar_multiply
// assay: launch scale_soft grid=(ceil_div(n, 128)) block=(128) args=(x, y, alpha, n)
// style: the product in integers: mantissas by a 64-bit multiplication, rounded to nearest even, small results flushed
__device__ unsigned product(unsigned a, unsigned b)
{
    const unsigned sign = (a ^ b) & 0x80000000u;
    int ea = a >> 23 & 255, eb = b >> 23 & 255;
    if (ea == 0 || eb == 0) return sign;                          // zeros, and subnormals as zeros
    const unsigned long long p = (unsigned long long)(a & 0x7fffffu | 0x800000u) * (b & 0x7fffffu | 0x800000u);
    const int high = (int)(p >> 47);
    const int drop = 23 + high;
    unsigned m = (unsigned)(p >> drop);
    const unsigned long long rest = p & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    m += rest > half || (rest == half && (m & 1));
    int e = ea + eb - 127 + high;
    if (m >> 24) {
        m >>= 1;
        ++e;
    }
    if (e <= 0) return sign;
    if (e >= 255) return sign | 0x7f800000u;
    return sign | (unsigned)e << 23 | (m & 0x7fffffu);
}

__global__ void scale_soft(const unsigned* x, unsigned* y, float alpha, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = product(x[i], __float_as_uint(alpha));
}
