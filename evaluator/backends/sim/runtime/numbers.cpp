// Arithmetic that vectors have no word for: functions, directed rounding, narrow floats, conversions.
#include "floats.h"
#include <fenv.h>
#include <math.h>
#if CHUNK == 64
#include <immintrin.h>
#endif

namespace {

struct Mode {
    explicit Mode(Rounding rounding) {
        static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
        if (rounding != NEAREST) fesetround(modes[rounding]);
    }
    ~Mode() { fesetround(FE_TONEAREST); }
};

template <class T> NOINLINE T apply(Binary operation, volatile T a, volatile T b) {
    volatile T r = 0;
    switch (operation) {
    case ADD: r = a + b; break;
    case SUB: r = a - b; break;
    case MUL: r = a * b; break;
    case DIV: r = a / b; break;
    }
    return r;
}
float canonical(float x) { return x != x ? f32_of(0x7fffffffu) : x; }

float f32_unary(Unary operation, float x) {
    switch (operation) {
    case SQRT: return canonical(sqrtf(x));
    case RSQRT: return canonical((float)(1.0 / sqrt((double)x)));
    case RCP: return canonical(1.0f / x);
    case SIN: return canonical(sinf(x));
    case COS: return canonical(cosf(x));
    case LG2: return canonical(log2f(x));
    case EX2: return canonical(exp2f(x));
    case TANH: return canonical(tanhf(x));
    }
    return 0;
}

float half_to_float(u32 h) {
    u32 sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    if (exponent == 31) return f32_of(sign | 0x7f800000 | mantissa << 13);
    if (exponent) return f32_of(sign | (exponent + 112) << 23 | mantissa << 13);
    float tiny = (float)mantissa * 0x1p-24f;
    return sign ? -tiny : tiny;
}

// Round a double to a narrow float with `mantissa` bits and an exponent range [low, high] of normal numbers.
u32 narrow_bits(double x, int mantissa, int low, int high, int bias, Rounding rounding, u32 nan, u32 infinity) {
    u32 sign = bits(x) >> 63 ? 0x8000 : 0;
    if (x != x) return nan;
    double a = fabs(x);
    if (a == INFINITY) return sign | infinity;
    if (a == 0) return sign;
    int e;
    frexp(a, &e); // a = m * 2^e, m in [0.5, 1)
    e -= 1;
    if (e < low) e = low;
    double step = ldexp(1.0, e - mantissa), scaled = a / step, whole = floor(scaled), rest = scaled - whole;
    bool up = false;
    switch (rounding) {
    case NEAREST: up = rest > 0.5 || (rest == 0.5 && fmod(whole, 2) != 0); break;
    case TO_ZERO: break;
    case DOWN: up = sign && rest > 0; break;
    case UP: up = !sign && rest > 0; break;
    }
    double rounded = (whole + up) * step;
    if (rounded >= ldexp(1.0, high + 1)) {
        bool to_infinity = rounding == NEAREST || (rounding == UP && !sign) || (rounding == DOWN && sign);
        return sign | (to_infinity ? infinity : infinity - 1);
    }
    if (rounded == 0) return sign;
    frexp(rounded, &e);
    e -= 1;
    u32 field = (1u << mantissa) - 1;
    if (e < low) return sign | (u32)(rounded / ldexp(1.0, low - mantissa));
    return sign | (u32)(e + bias) << mantissa | ((u32)(rounded / ldexp(1.0, e - mantissa)) & field);
}
u32 to_narrow(Narrow kind, Rounding rounding, double x) {
    return kind == F16 ? narrow_bits(x, 10, -14, 15, 15, rounding, 0x7fff, 0x7c00)
                       : narrow_bits(x, 7, -126, 127, 127, rounding, 0x7fff, 0x7f80);
}
INLINE float from_narrow(Narrow kind, u32 h) { return kind == F16 ? half_to_float(h & 0xffff) : f32_of(h << 16); }

// What a sum or an integer rounds to in a narrow format, it rounds to from here too: where a double cannot hold it, the
// double on that side of it whose last bit is set (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums:
// proved algorithms using rounding to odd", IEEE Transactions on Computers 57, 2008).
double odd_sum(double x, double y) {
    double sum = x + y, of_x = sum - y, of_y = sum - of_x;
    double rest = (x - of_x) + (y - of_y);
    if (rest == 0 || rest != rest || fabs(sum) == INFINITY || bits(sum) & 1) return sum;
    return nextafter(sum, rest > 0 ? INFINITY : -INFINITY);
}
// The same of float32, by integers and without a branch, so that a loop over lanes becomes vector code. A difference that
// is not a number, as of infinities, is no rest.
INLINE float odd_sum(float x, float y) {
    float sum = x + y, of_x = sum - y, of_y = sum - of_x, rest = (x - of_x) + (y - of_y);
    u32 pattern = bits(sum), rests = (u32)(rest < 0) | (u32)(rest > 0), even = ~pattern & 1;
    u32 inward = (bits(rest) ^ pattern) >> 31;
    return f32_of(pattern + (rests & even) * (1 - 2 * inward));
}
// A float16 result below the smallest normal number, with an exponent without bounds, becomes a zero.
double without_tiny_half(double x) { return fabs(x) < 0x1p-14 * (1 - 0x1p-12) ? copysign(0.0, x) : x; }
double odd_integer(u64 x, bool is_signed) {
    bool negative = is_signed && x >> 63;
    u64 size = negative ? -x : x;
    if (size >> 53) size = size & ~0x7ffull | ((size & 0x7ff) != 0) << 11;
    return negative ? -(double)size : (double)size;
}

// float32 to float16 or bfloat16, to nearest even, by integers alone.
INLINE u32 nearest_f16(u32 x) {
    u32 sign = x >> 16 & 0x8000, a = x & 0x7fffffff;
    if (a > 0x7f800000) return 0x7fff;
    if (a >= 0x477ff000) return sign | 0x7c00;
    if (a < 0x38800000) return sign | (bits(f32_of(a) + 0.5f) & 0x7fff) ;
    return sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13);
}
INLINE u32 nearest_bf16(u32 x) {
    if ((x & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (x + 0x7fff + (x >> 16 & 1)) >> 16;
}

} // namespace

U32 unary_f32(Unary operation, U32 x) {
    return map([=](u32 a) { return bits(f32_unary(operation, f32_of(a))); }, x);
}
U64 unary_f64(Unary operation, U64 x) {
    return map(
        [=](u64 a) {
            double d = f64_of(a);
            return bits(operation == SQRT ? sqrt(d) : operation == RSQRT ? 1 / sqrt(d) : 1 / d);
        },
        x);
}
U32 rounded_f32(Binary operation, Rounding rounding, U32 a, U32 b) {
    Mode mode(rounding);
    return map([=](u32 x, u32 y) { return bits(apply(operation, f32_of(x), f32_of(y))); }, a, b);
}
U64 rounded_f64(Binary operation, Rounding rounding, U64 a, U64 b) {
    Mode mode(rounding);
    return map([=](u64 x, u64 y) { return bits(apply(operation, f64_of(x), f64_of(y))); }, a, b);
}
#if CHUNK == 64
// With the rounding in the instruction. nvcc's expf has one in every call.
template <int ROUNDING> INLINE U32 fma_rounding(const U32 &a, const U32 &b, const U32 &c) {
    U32 r;
    r.v0 = (c32)_mm512_fmadd_round_ps((__m512)a.v0, (__m512)b.v0, (__m512)c.v0, ROUNDING | _MM_FROUND_NO_EXC);
    r.v1 = (c32)_mm512_fmadd_round_ps((__m512)a.v1, (__m512)b.v1, (__m512)c.v1, ROUNDING | _MM_FROUND_NO_EXC);
    return r;
}
#endif
U32 rounded_fma_f32(Rounding rounding, U32 a, U32 b, U32 c) {
#if CHUNK == 64
    switch (rounding) {
    case NEAREST: return fma_rounding<_MM_FROUND_TO_NEAREST_INT>(a, b, c);
    case TO_ZERO: return fma_rounding<_MM_FROUND_TO_ZERO>(a, b, c);
    case DOWN: return fma_rounding<_MM_FROUND_TO_NEG_INF>(a, b, c);
    case UP: return fma_rounding<_MM_FROUND_TO_POS_INF>(a, b, c);
    }
#endif
    Mode mode(rounding);
    return map([](u32 x, u32 y, u32 z) { volatile float p = f32_of(x); return bits(fmaf(p, f32_of(y), f32_of(z))); }, a, b, c);
}
U64 rounded_fma_f64(Rounding rounding, U64 a, U64 b, U64 c) {
    Mode mode(rounding);
    return map([](u64 x, u64 y, u64 z) { volatile double p = f64_of(x); return bits(fma(p, f64_of(y), f64_of(z))); }, a, b, c);
}
U32 rounded_sqrt_f32(Rounding rounding, U32 a) {
    Mode mode(rounding);
    return map([](u32 x) { volatile float p = f32_of(x); return bits(canonical(sqrtf(p))); }, a);
}
U64 rounded_sqrt_f64(Rounding rounding, U64 a) {
    Mode mode(rounding);
    return map([](u64 x) { volatile double p = f64_of(x); return bits(sqrt(p)); }, a);
}

// The result again, 2^64 times as large, where it has all its bits.
U32 without_tiny_f32(u32 lanes, U32 result, Binary operation, Rounding rounding, U32 a, U32 b) {
    Mode mode(rounding);
    A32 r = spread(result), x = spread(a), y = spread(b);
    for (; lanes; lanes &= lanes - 1) {
        int i = __builtin_ctz(lanes);
        float p = f32_of(x.e[i]), q = f32_of(y.e[i]);
        // A product's small factor, or the dividend, which is no more than 2^2: both stay finite.
        if (operation == MUL && fabsf(p) > 1) q *= 0x1p64f;
        else p *= 0x1p64f;
        if (fabsf(apply(operation, p, q)) < 0x1p-62f) r.e[i] &= 0x80000000;
    }
    return gather(r);
}
U32 without_tiny_fma_f32(u32 lanes, U32 result, Rounding rounding, U32 a, U32 b, U32 c) {
    Mode mode(rounding);
    A32 r = spread(result), x = spread(a), y = spread(b), z = spread(c);
    for (; lanes; lanes &= lanes - 1) {
        int i = __builtin_ctz(lanes);
        volatile float p = f32_of(x.e[i]), q = f32_of(y.e[i]), s = f32_of(z.e[i]) * 0x1p64f;
        if (fabsf(p) > 1) q = q * 0x1p64f;
        else p = p * 0x1p64f;
        if (fabsf(fmaf(p, q, s)) < 0x1p-62f) r.e[i] &= 0x80000000;
    }
    return gather(r);
}

U32 widen_float(Narrow kind, U32 x) {
    return map([=](u32 a) { return bits(from_narrow(kind, a)); }, x);
}
U32 narrow_float(Narrow kind, Rounding rounding, U32 x) {
    if (rounding == NEAREST && kind == BF16) return map([](u32 a) { return nearest_bf16(a); }, x);
    if (rounding == NEAREST) return map([](u32 a) { return nearest_f16(a); }, x);
    return map([=](u32 a) { return to_narrow(kind, rounding, f32_of(a)); }, x);
}
U32 narrow_double(Narrow kind, Rounding rounding, U64 x) {
    return map_narrow([=](u64 a) { return to_narrow(kind, rounding, f64_of(a)); }, x);
}
U32 narrow_integer(Narrow kind, Rounding rounding, U64 x, bool is_signed) {
    return map_narrow([=](u64 a) { return to_narrow(kind, rounding, odd_integer(a, is_signed)); }, x);
}
U32 widen_f8(Eighth kind, U32 x) {
    return map(
        [=](u32 a) {
            u32 sign = (a & 0x80) << 8, rest = a & 0x7f;
            if (kind == E5M2) return rest > 0x7c ? 0x7fffu : sign | rest << 8;
            if (rest == 0x7f) return 0x7fffu;
            u32 exponent = rest >> 3, mantissa = rest & 7;
            if (exponent) return sign | (exponent + 8) << 10 | mantissa << 7;
            return sign | nearest_f16(bits((float)mantissa * 0x1p-9f));
        },
        x);
}
U32 narrow_f8(Eighth kind, bool relu, U32 x) {
    return map(
        [=](u32 a) {
            float value = f32_of(a);
            if (value != value) return 0x7fu;
            if (relu && a >> 31) return 0u;
            u32 largest = kind == E4M3 ? 0x7e : 0x7b, size = fabsf(value) > 1e6f ? largest
                        : kind == E4M3 ? narrow_bits(fabsf(value), 3, -6, 8, 7, NEAREST, 0x7f, 0x7f)
                                       : narrow_bits(fabsf(value), 2, -14, 15, 15, NEAREST, 0x7f, 0x7c);
            return (a >> 31) << 7 | (size < largest ? size : largest);
        },
        x);
}
namespace {
// x * y + z of narrow floats in float32, and the lanes where that is not exact. The product of two float16 always is; of
// two bfloat16 it is where float32 has all its bits: it neither overflows nor falls below the normal numbers.
u32 fused(Narrow kind, bool tiny_to_zero, const A32 &x, const A32 &y, const A32 &z, A32 &r) {
    if (kind == F16) {
        float least = tiny_to_zero ? 0x1p-14f * (1 - 0x1p-12f) : 0;
        for (int i = 0; i < LANES; i++) {
            float sum = odd_sum(half_to_float(x.e[i] & 0xffff) * half_to_float(y.e[i] & 0xffff), half_to_float(z.e[i] & 0xffff));
            r.e[i] = nearest_f16(fabsf(sum) < least ? bits(sum) & 1u << 31 : bits(sum));
        }
        return 0;
    }
    if (tiny_to_zero) return ~0u;
    A32 odd;
    for (int i = 0; i < LANES; i++) {
        float p = f32_of(x.e[i] << 16), q = f32_of(y.e[i] << 16), product = p * q, size = fabsf(product);
        r.e[i] = nearest_bf16(bits(odd_sum(product, f32_of(z.e[i] << 16))));
        // Infinities and what is not a number among the factors go the other way too, with what overflows.
        odd.e[i] = (u32)!((size >= 0x1p-126f && size < 0x1p127f) || p == 0 || q == 0);
    }
    u32 lanes = 0;
    for (int i = 0; i < LANES; i++) lanes |= odd.e[i] << i;
    return lanes;
}
} // namespace

// A float32 sum, difference or product of two narrow floats rounds once more without harm (24 >= 2 * 11 + 2 bits), but
// for a product below what float32 has all its bits for. Of a fused product, whose factors a double holds exactly, the
// sum is rounded to odd first.
U32 half_operation(Narrow kind, Half operation, U32 a, U32 b, U32 c) {
    A32 x = spread(a), y = spread(b), z = spread(c), r;
    if (operation == H_FMA || operation == H_FMA_FTZ) {
        u32 inexact = fused(kind, operation == H_FMA_FTZ, x, y, z, r);
        for (; inexact; inexact &= inexact - 1) {
            int i = __builtin_ctz(inexact);
            double product = (double)from_narrow(kind, x.e[i]) * (double)from_narrow(kind, y.e[i]);
            double exact = odd_sum(product, (double)from_narrow(kind, z.e[i]));
            r.e[i] = to_narrow(kind, NEAREST, operation == H_FMA ? exact : without_tiny_half(exact));
        }
        return gather(r);
    }
    for (int i = 0; i < LANES; i++) {
        float p = from_narrow(kind, x.e[i]), q = from_narrow(kind, y.e[i]), s = 0;
        switch (operation) {
        case H_ADD: s = p + q; break;
        case H_SUB: s = p - q; break;
        case H_MUL:
            s = p * q;
            if (kind == F16 || fabsf(s) >= 0x1p-126f) break;
            r.e[i] = to_narrow(kind, NEAREST, (double)p * (double)q);
            continue;
        case H_MUL_FTZ: s = (float)without_tiny_half(p * q); break;
        case H_FMA:
        case H_FMA_FTZ: break; // above
        case H_MIN: s = p != p ? q : q != q ? p : p < q || (p == q && signbit(p)) ? p : q; break;
        case H_MAX: s = p != p ? q : q != q ? p : p > q || (p == q && !signbit(p)) ? p : q; break;
        case H_TANH: s = approximate_half(kind, operation, p, tanhf(p)); break;
        case H_EX2: s = approximate_half(kind, operation, p, exp2f(p)); break;
        }
        r.e[i] = kind == F16 ? nearest_f16(bits(s)) : nearest_bf16(bits(s));
    }
    return gather(r);
}

namespace {
double to_integral(double x, Rounding rounding) {
    switch (rounding) {
    case NEAREST: return nearbyint(x);
    case TO_ZERO: return trunc(x);
    case DOWN: return floor(x);
    default: return ceil(x);
    }
}
// NaN: 0 unless either side has 64 bits (PTX ISA, cvt).
u64 saturated(double x, int to_bits, bool is_signed, bool wide) {
    if (x != x) return wide || to_bits == 64 ? 1ull << (to_bits - 1) : 0;
    if (is_signed) {
        double limit = ldexp(1.0, to_bits - 1);
        if (x >= limit) return (1ull << (to_bits - 1)) - 1;
        if (x < -limit) return ~0ull << (to_bits - 1);
        return (u64)(i64)x;
    }
    if (x <= 0) return 0;
    if (x >= ldexp(1.0, to_bits)) return to_bits == 64 ? ~0ull : (1ull << to_bits) - 1;
    return (u64)x;
}
} // namespace

U64 float_to_int(U64 x, Rounding rounding, int to_bits, bool is_signed, bool from_double) {
    return map([=](u64 a) { return saturated(to_integral(f64_of(a), rounding), to_bits, is_signed, from_double); }, x);
}
U32 round_f32(Rounding rounding, U32 x) {
    return map([=](u32 a) { return bits((float)to_integral(f32_of(a), rounding)); }, x);
}
U64 round_f64(Rounding rounding, U64 x) {
    return map([=](u64 a) { return bits(to_integral(f64_of(a), rounding)); }, x);
}
U64 f64_from_f32(U32 x) {
    return map_wide([](u32 a) { return bits((double)f32_of(a)); }, x);
}
U32 f32_from_f64(Rounding rounding, U64 x) {
    Mode mode(rounding);
    return map_narrow([](u64 a) { volatile double d = f64_of(a); volatile float f = (float)d; return bits((float)f); }, x);
}
U32 f32_from_int(Rounding rounding, U64 x, bool is_signed) {
    Mode mode(rounding);
    return map_narrow([=](u64 a) { volatile u64 v = a; volatile float f = is_signed ? (float)(i64)v : (float)v; return bits((float)f); }, x);
}
U64 f64_from_int(Rounding rounding, U64 x, bool is_signed) {
    Mode mode(rounding);
    return map([=](u64 a) { volatile u64 v = a; volatile double f = is_signed ? (double)(i64)v : (double)v; return bits((double)f); }, x);
}
