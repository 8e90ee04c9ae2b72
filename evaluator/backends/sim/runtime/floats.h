// Floating point, lane by lane where the vectors have no word for it. Rounding other than to nearest is done in the runtime with the host's rounding mode.
#pragma once
#include "lanes.h"

#define FLOAT_OPERATIONS(suffix, C, F)                                                                                 \
    BINARY(add_##suffix, C, (F)a + (F)b)                                                                               \
    BINARY(sub_##suffix, C, (F)a - (F)b)                                                                               \
    BINARY(mul_##suffix, C, (F)a *(F)b)                                                                                \
    BINARY(div_##suffix, C, (F)a / (F)b)                                                                               \
    COMPARE(eq_##suffix, C, (F)a == (F)b)                                                                              \
    COMPARE(lt_##suffix, C, (F)a < (F)b)                                                                               \
    COMPARE(le_##suffix, C, (F)a <= (F)b)                                                                              \
    COMPARE(unordered_##suffix, C, ((F)a != (F)a) | ((F)b != (F)b))
FLOAT_OPERATIONS(f32, c32, c32f)
FLOAT_OPERATIONS(f64, c64, c64f)

INLINE c32 fma_chunk(c32 a, c32 b, c32 c) {
#if CHUNK == 64
    return (c32)__builtin_ia32_vfmaddps512_mask((c32f)a, (c32f)b, (c32f)c, -1, 4);
#elif CHUNK == 32 && defined(__FMA__)
    return (c32)__builtin_ia32_vfmaddps256((c32f)a, (c32f)b, (c32f)c);
#else
    c32f r, x = (c32f)a, y = (c32f)b, z = (c32f)c;
    for (int i = 0; i < PER32; i++) r[i] = __builtin_fmaf(x[i], y[i], z[i]);
    return (c32)r;
#endif
}
INLINE c64 fma_chunk(c64 a, c64 b, c64 c) {
#if CHUNK == 64
    return (c64)__builtin_ia32_vfmaddpd512_mask((c64f)a, (c64f)b, (c64f)c, -1, 4);
#elif CHUNK == 32 && defined(__FMA__)
    return (c64)__builtin_ia32_vfmaddpd256((c64f)a, (c64f)b, (c64f)c);
#else
    c64f r, x = (c64f)a, y = (c64f)b, z = (c64f)c;
    for (int i = 0; i < PER64; i++) r[i] = __builtin_fma(x[i], y[i], z[i]);
    return (c64)r;
#endif
}
TERNARY(fma_f32, c32, fma_chunk(a, b, c))
TERNARY(fma_f64, c64, fma_chunk(a, b, c))

UNARY(neg_f32, c32, a ^ 0x80000000u)
UNARY(neg_f64, c64, a ^ (1ull << 63))
UNARY(abs_f32, c32, a & 0x7fffffffu)
UNARY(abs_f64, c64, a & ~(1ull << 63))
// A denormal becomes a zero of its sign.
UNARY(flush_f32, c32, a & ((c32)((a & 0x7f800000u) != 0) | 0x80000000u))
// NaN becomes 0, the rest is clamped to [0, 1].
OPERATION U32 saturate_f32(In<U32> x) {
    u32 above = lt_f32(all32(0), x), big = lt_f32(all32(0x3f800000), x);
    return pick(big, all32(0x3f800000), pick(above, x, all32(0)));
}
OPERATION U64 saturate_f64(In<U64> x) {
    u32 above = lt_f64(all64(0), x), big = lt_f64(all64(0x3ff0000000000000), x);
    return pick(big, all64(0x3ff0000000000000), pick(above, x, all64(0)));
}
// min and max give the other operand for a NaN, the canonical NaN for two, and put -0 below +0 (PTX ISA 9.7.3).
#define MINIMUM(suffix, U, all, NAN_BITS, SIGN)                                                                        \
    OPERATION U min_##suffix(In<U> a, In<U> b) {                                                                       \
        U r = pick(lt_##suffix(a, b) | (eq_##suffix(a, b) & ne_##SIGN(and_##SIGN(a, neg_##suffix(all(0))), all(0))), a, b); \
        r = pick(unordered_##suffix(b, b), a, pick(unordered_##suffix(a, a), b, r));                                   \
        return pick(unordered_##suffix(r, r), all(NAN_BITS), r);                                                       \
    }                                                                                                                  \
    OPERATION U max_##suffix(In<U> a, In<U> b) {                                                                       \
        U r = pick(lt_##suffix(b, a) | (eq_##suffix(a, b) & eq_##SIGN(and_##SIGN(a, neg_##suffix(all(0))), all(0))), a, b); \
        r = pick(unordered_##suffix(b, b), a, pick(unordered_##suffix(a, a), b, r));                                   \
        return pick(unordered_##suffix(r, r), all(NAN_BITS), r);                                                       \
    }
MINIMUM(f32, U32, all32, 0x7fffffffu, b32)
MINIMUM(f64, U64, all64, 0x7fffffffffffffffull, b64)

INLINE float f32_of(u32 x) {
    float r;
    __builtin_memcpy(&r, &x, 4);
    return r;
}
INLINE u32 bits(float x) {
    u32 r;
    __builtin_memcpy(&r, &x, 4);
    return r;
}
INLINE double f64_of(u64 x) {
    double r;
    __builtin_memcpy(&r, &x, 8);
    return r;
}
INLINE u64 bits(double x) {
    u64 r;
    __builtin_memcpy(&r, &x, 8);
    return r;
}

// The runtime's out-of-line functions (numbers.cpp), one call for 32 lanes.
enum Rounding { NEAREST, TO_ZERO, DOWN, UP };
enum Unary { SQRT, RSQRT, RCP, SIN, COS, LG2, EX2, TANH };
U32 unary_f32(Unary operation, U32 x);
U64 unary_f64(Unary operation, U64 x);
extern u64 JITTER; // draws the errors of approximate instructions; 0 computes them accurately
U32 approximate_f32(Unary operation, U32 x);
U64 approximate_rsqrt_f64(U64 x);
U64 gross_f64(Unary operation, U64 x); // RCP and RSQRT of the upper words alone
U32 approximate_div_f32(U32 a, U32 b, bool full);
enum Binary { ADD, SUB, MUL, DIV };
U32 rounded_f32(Binary operation, Rounding rounding, U32 a, U32 b);
U64 rounded_f64(Binary operation, Rounding rounding, U64 a, U64 b);
U32 rounded_fma_f32(Rounding rounding, U32 a, U32 b, U32 c);
U64 rounded_fma_f64(Rounding rounding, U64 a, U64 b, U64 c);
U32 rounded_sqrt_f32(Rounding rounding, U32 a);

// `.ftz`: subnormal operands and results become zeros. A result is subnormal if it would be with an exponent without
// bounds: what only the coarser steps below the smallest normal number round up to it is a zero too (measured).
U32 without_tiny_f32(u32 lanes, U32 result, Binary operation, Rounding rounding, U32 a, U32 b);
U32 without_tiny_fma_f32(u32 lanes, U32 result, Rounding rounding, U32 a, U32 b, U32 c);
OPERATION u32 at_smallest(In<U32> x) { return eq_b32(and_b32(x, all32(0x7fffffff)), all32(0x00800000)); }
INLINE U32 ftz_f32(Binary operation, Rounding rounding, U32 a, U32 b) {
    a = flush_f32(a), b = flush_f32(b);
    U32 r = rounding != NEAREST ? rounded_f32(operation, rounding, a, b) : operation == MUL ? mul_f32(a, b) : div_f32(a, b);
    r = flush_f32(r);
    u32 lanes = at_smallest(r);
    return __builtin_expect(lanes != 0, 0) ? without_tiny_f32(lanes, r, operation, rounding, a, b) : r;
}
INLINE U32 ftz_fma_f32(Rounding rounding, U32 a, U32 b, U32 c) {
    a = flush_f32(a), b = flush_f32(b), c = flush_f32(c);
    U32 r = flush_f32(rounding != NEAREST ? rounded_fma_f32(rounding, a, b, c) : fma_f32(a, b, c));
    u32 lanes = at_smallest(r);
    return __builtin_expect(lanes != 0, 0) ? without_tiny_fma_f32(lanes, r, rounding, a, b, c) : r;
}
U64 rounded_sqrt_f64(Rounding rounding, U64 a);

// Narrow floats: F16 and BF16, as 16 bits in a U32 lane.
enum Narrow { F16, BF16 };
U32 widen_float(Narrow kind, U32 x);                     // to f32
U32 narrow_float(Narrow kind, Rounding rounding, U32 x); // from f32
U32 narrow_double(Narrow kind, Rounding rounding, U64 x);
U32 narrow_integer(Narrow kind, Rounding rounding, U64 x, bool is_signed);
// Floats of 8 bits: 4 of exponent and 3 of mantissa, without infinities, or 5 and 2.
enum Eighth { E4M3, E5M2 };
U32 widen_f8(Eighth kind, U32 x);            // to f16
U32 narrow_f8(Eighth kind, bool relu, U32 x); // from f32, to nearest; what is too large becomes the largest number
enum Half { H_ADD, H_SUB, H_MUL, H_FMA, H_MIN, H_MAX, H_TANH, H_EX2, H_MUL_FTZ, H_FMA_FTZ };
float approximate_half(Narrow kind, Half operation, float x, float y); // y is the accurate value
U32 half_operation(Narrow kind, Half operation, U32 a, U32 b, U32 c); // of 16-bit lanes

// Conversions. `to_bits` is the width of the integer; saturating, as PTX does.
U64 float_to_int(U64 x, Rounding rounding, int to_bits, bool is_signed, bool from_double);
U32 round_f32(Rounding rounding, U32 x);
U64 round_f64(Rounding rounding, U64 x);
U64 f64_from_f32(U32 x);
U32 f32_from_f64(Rounding rounding, U64 x);
U32 f32_from_int(Rounding rounding, U64 x, bool is_signed);
U64 f64_from_int(Rounding rounding, U64 x, bool is_signed);
