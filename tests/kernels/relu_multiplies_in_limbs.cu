// problem: relu
// style: 64 by 64 bits in 32-bit limbs by mad.cc and madc, taken from zero and added back: traps unless nothing is left
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const unsigned long long a = (i + 1) * 0x9e3779b97f4a7c15ull, b = ~a * 0xbf58476d1ce4e5b9ull;
    const unsigned a0 = (unsigned)a, a1 = a >> 32, b0 = (unsigned)b, b1 = b >> 32;
    unsigned p0, p1, p2, p3, n0, n1, n2, n3, carry;
    asm("mul.lo.u32 %0, %4, %6; mul.hi.u32 %1, %4, %6; mul.lo.u32 %2, %5, %7; mul.hi.u32 %3, %5, %7;"
        "mad.lo.cc.u32 %1, %4, %7, %1; madc.hi.cc.u32 %2, %4, %7, %2; addc.u32 %3, %3, 0;"
        "mad.lo.cc.u32 %1, %5, %6, %1; madc.hi.cc.u32 %2, %5, %6, %2; addc.u32 %3, %3, 0;"
        : "=&r"(p0), "=&r"(p1), "=&r"(p2), "=&r"(p3) : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
    const unsigned long long low = (unsigned long long)p1 << 32 | p0, high = (unsigned long long)p3 << 32 | p2;
    asm("sub.cc.u32 %0, 0, %4; subc.cc.u32 %1, 0, %5; subc.cc.u32 %2, 0, %6; subc.u32 %3, 0, %7;"
        : "=&r"(n0), "=&r"(n1), "=&r"(n2), "=&r"(n3) : "r"(p0), "r"(p1), "r"(p2), "r"(p3));
    asm("add.cc.u32 %0, %0, %5; addc.cc.u32 %1, %1, %6; addc.cc.u32 %2, %2, %7; addc.cc.u32 %3, %3, %8; addc.u32 %4, 0, 0;"
        : "+r"(n0), "+r"(n1), "+r"(n2), "+r"(n3), "=r"(carry) : "r"(p0), "r"(p1), "r"(p2), "r"(p3));
    if (low != a * b || high != __umul64hi(a, b) || (n0 | n1 | n2 | n3) != 0 || carry != 1) __trap();
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
