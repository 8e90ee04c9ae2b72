// Approximate instructions, wrong by as much as their documentation allows (PTX ISA 9.0, sections 9.7.3 and 9.7.4).
//
// What a GPU gives lies somewhere within the documented error. Here JITTER chooses where: the same operand gives the
// same result in all runs that share it, as on a GPU, and 0 computes everything accurately. What the tables of special
// values fix, and results that every GPU has exactly (powers of two), stay exact.
#include "floats.h"
#include <math.h>

u64 JITTER;

namespace {

u64 mixed(u64 x) { // SplitMix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
INLINE u64 drawn(u32 operation, u32 operand) { return mixed(JITTER ^ (u64)operation << 40 ^ operand); }
INLINE double share(u64 drawn) { return (double)(i64)drawn * 0x1p-63; } // in [-1, 1)

INLINE bool special(float x) { return x == 0 || x != x || fabsf(x) == INFINITY; }
INLINE bool is_power_of_two(float x) { return !(bits(x) & 0x7fffff); }
// The next float in the direction of `step`, -1, 0 or 1, away from zero.
INLINE float moved(float x, int step) { return special(x) || fabsf(x) < 0x1p-125f ? x : f32_of(bits(x) + (u32)step); }
// Of the two floats around the exact value, which `excess` says to lie below or above `y`, either one: within one ulp.
INLINE float either(float y, float excess, u64 drawn) { return drawn & 1 && excess != 0 ? moved(y, excess > 0 ? -1 : 1) : y; }
INLINE int one_step(u64 drawn) { return (int)(drawn % 3) - 1; }

float approximated(Unary operation, float x, float y) {
    if (special(x) || special(y)) return y;
    u64 d = drawn(operation, bits(x));
    switch (operation) {
    case RCP: // 1 ulp
        return either(y, x > 0 ? fmaf(x, y, -1) : -fmaf(x, y, -1), d);
    case SQRT: // relative 2^-23
        return either(y, fmaf(y, y, -x), d);
    case RSQRT: // relative 2^-22.9
        return is_power_of_two(y) ? y : either(y, (float)(y - 1 / sqrt((double)x)), d);
    case EX2: // 2 ulp; the C library is within one half and a little
        return x == floorf(x) ? y : moved(y, one_step(d));
    case LG2: // absolute 2^-22 in (0.5, 2), else relative 2^-22
        if (is_power_of_two(x)) return y;
        return x > 0.5f && x < 2 ? (float)(y + share(d) * 0x1.7p-23) : moved(y, one_step(d));
    case SIN: // absolute 2^-20.5 in two periods around 0, 2^-14.7 in a hundred
    case COS: return (float)fmax(-1, fmin(1, y + share(d) * (fabsf(x) < 6.2831855f ? 0x1.4p-21 : 0x1.3p-15)));
    case TANH: // relative 2^-11
        return (float)fmax(-1, fmin(1, y * (1 + share(d) * 0x1.fp-12)));
    }
    return y;
}

} // namespace

U32 approximate_f32(Unary operation, U32 x) {
    U32 accurate = unary_f32(operation, x);
    if (!JITTER) return accurate;
    return map([=](u32 a, u32 y) { return bits(approximated(operation, f32_of(a), f32_of(y))); }, x, accurate);
}

// The upper half of the result, the lower one is zero ("gross approximation", sections 9.7.3.16 and 9.7.3.19).
U64 approximate_f64(Unary operation, U64 x) {
    U64 accurate = unary_f64(operation, x);
    return JITTER ? and_b64(accurate, all64(~0ull << 32)) : accurate;
}

// 2 ulp; `full` over the whole range, else a divisor above 2^126 gives zero, or NaN for an infinite dividend.
U32 approximate_div_f32(U32 a, U32 b, bool full) {
    U32 accurate = div_f32(a, b);
    if (!JITTER) return accurate;
    A32 x = spread(a), y = spread(b), r = spread(accurate);
    for (int i = 0; i < LANES; i++) {
        float p = f32_of(x.e[i]), q = f32_of(y.e[i]), quotient = f32_of(r.e[i]);
        if (!full && fabsf(q) > 0x1p126f && fabsf(q) < INFINITY && p == p)
            r.e[i] = fabsf(p) == INFINITY ? 0x7fffffff : (x.e[i] ^ y.e[i]) & 0x80000000;
        else if (p != q && !special(q) && !is_power_of_two(q) && quotient != rintf(quotient))
            r.e[i] = bits(moved(quotient, one_step(drawn(100, x.e[i] ^ y.e[i] * 0x9e3779b1u))));
    }
    return gather(r);
}

// ex2: relative 2^-9.9 (f16), 2^-7 (bf16); tanh: absolute 2^-10.987, 2^-8. Rounding to 11 or 8 bits takes its share.
float approximate_half(Narrow kind, Half operation, float x, float y) {
    if (!JITTER || special(x) || special(y)) return y;
    double shift = share(drawn(200 + operation + 10 * kind, bits(x)));
    if (operation == H_EX2) return x == floorf(x) ? y : (float)(y * (1 + shift * (kind == F16 ? 0x1.2p-11 : 0x1p-8)));
    return (float)fmax(-1, fmin(1, y + shift * (kind == F16 ? 0x1p-12 : 0x1p-9)));
}
