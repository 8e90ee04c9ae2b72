// Approximate instructions, as inexact as a GPU (PTX ISA 9.0, sections 9.7.3 and 9.7.4).
//
// An error here is at most what an H200 shows over all operands (tests/evaluator/backends/sim/approximate_h200.csv).
// That is within what the PTX ISA documents for the instruction, and within what the CUDA C++ Programming Guide
// documents for the library's functions, which nvcc builds from these instructions: the full error that the PTX ISA
// allows would take some of them beyond theirs.
//
// As on a GPU the same operand always gives the same result, an error changes slowly from one operand to the next, so
// that a monotonic function stays monotonic, and it depends on the mantissa or the fraction alone. JITTER draws it; 0
// computes accurately. What an H200 has exactly stays exact: special values, powers of two, exponentials of integers,
// logarithms of powers of two from 1 on (of smaller ones it has not), perfect squares.
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

// A piecewise linear function of `place`, in [0, 2], with values in [-1, 1] and a knot every 1/64: that is how finely
// a GPU's tables divide the mantissa (Oberman and Siu, "A High-Performance Area-Efficient Multifunction Interpolator",
// ARITH 2005). `knots` is after how many the function begins again.
double deviation(Unary operation, double place, u32 knots = 128) {
    double scaled = place * 64;
    u32 left = (u32)scaled;
    auto knot = [=](u32 n) { return (double)(i64)mixed(JITTER ^ (u64)operation << 40 ^ n % knots) * 0x1p-63; };
    double below = knot(left), above = knot(left + 1);
    return JITTER ? below + (above - below) * (scaled - left) : 0;
}

INLINE bool special(float x) { return x == 0 || x != x || fabsf(x) == INFINITY; }

// |x| = mantissa * 2^exponent, with the mantissa in [1, 2).
struct Parts {
    explicit Parts(double x) {
        u64 pattern = bits(x) & ~(1ull << 63);
        exponent = (int)(pattern >> 52) - 1023;
        mantissa = f64_of((pattern & ~(0x7ffull << 52)) | 1023ull << 52);
    }
    double mantissa;
    int exponent;
};
// 2^n, for n in [-1022, 1023].
INLINE double power_of_two(int n) { return f64_of((u64)(n + 1023) << 52); }
INLINE double between(double low, double x, double high) { return fmin(fmax(x, low), high); }

// In units of the result's last place, before it is rounded: 1/x and sqrt(x) are rounded correctly where they are
// representable, and in all within 0.82 ulp (an H200's 0.98 and 0.94; relative 2^-23.3, as there).
constexpr double SHIFT_ULP = 0.32;

double reciprocal(double x) {
    Parts p(x);
    double y = 1 / p.mantissa; // in (1/2, 1]
    y += deviation(RCP, p.mantissa - 1) * SHIFT_ULP * 0x1p-24;
    // Only of a power of two is it one: nvcc's 128-bit division takes the mantissa's bits of it less one, and of
    // 2^k - 1 would otherwise take them below zero.
    if (p.mantissa != 1) y = fmax(y, 0x1.000002p-1);
    return copysign((double)(float)y * power_of_two(-p.exponent), x);
}

// x as m * 4^n, with m in [1, 4), and where in that range it is, from 0 to 2.
struct Quarters : Parts {
    explicit Quarters(double x) : Parts(x), odd(exponent & 1), half((exponent - odd) / 2) {}
    double value() const { return odd ? 2 * mantissa : mantissa; }
    double place() const { return odd + mantissa - 1; }
    int odd, half;
};
float root(double x) {
    Quarters q(x);
    double y = sqrt(q.value()) + deviation(SQRT, q.place()) * SHIFT_ULP * 0x1p-23; // from 1 on
    return (float)(fmax(1, y) * power_of_two(q.half));
}
// Relative 2^-24 before it is rounded, 2^-23 in all (an H200's 2^-22.94).
float inverse_root(double x) {
    Quarters q(x);
    double y = 1 / sqrt(q.value()); // in (1/2, 1]
    if (y != 1) y = between(0.5, y * (1 + deviation(RSQRT, q.place()) * 0x1p-24), 1);
    return (float)(y * power_of_two(-q.half));
}
// 0.7 ulp before it is rounded, 1.2 in all (an H200's 1.39 above and 2.06 below the exact value).
float exponential(double x) {
    if (x < -151) return 0;
    if (x >= 128) return INFINITY;
    double whole = floor(x), fraction = x - whole;
    if (fraction == 0) return (float)power_of_two((int)whole);
    double y = between(1, exp2(fraction) + deviation(EX2, fraction) * 0.7 * 0x1p-23, 2);
    return (float)(y * power_of_two((int)whole));
}
// 2^-23.75 before it is rounded: absolute 2^-23.2 in (1/2, 2), relative 2^-22.8 elsewhere (an H200's 2^-22.15 and
// 2^-22.1, with which __log10f is just beyond its documented 2^-24). Next to 1 an H200 has between a seventh of the
// exact value and 1.6 times it.
float logarithm(double x) {
    Parts p(x);
    if (p.mantissa == 1 && p.exponent >= 0) return (float)p.exponent;
    double exact = p.exponent == -1 ? log2(x) : p.exponent + log2(p.mantissa);
    double y = exact + deviation(LG2, p.mantissa - 1, 64) * 0x1.3p-24;
    if (p.exponent >= 0) y = between(p.exponent, y, p.exponent + 1);
    if (p.exponent == 0) y = fmax(y, 0.2 * exact);
    if (p.exponent == -1) y = fmin(y, 0.2 * exact);
    return (float)y;
}

// A GPU multiplies by the float next to 1 / 2 pi and looks the angle up in steps of 2^-25 turns: that is most of its
// error, absolute 2^-21.4 up to pi and doubling with the operand; sines of the smallest angles are zero.
float turn(Unary operation, float x) {
    double turns = trunc((double)(x * 0x1.45f306p-3f) * 0x1p25) * 0x1p-25;
    double angle = turns - rint(turns), off = deviation(operation, 2 * fabs(angle)) * 0x1.6ap-25;
    if (operation == COS) return (float)between(-1, cos(2 * M_PI * angle) + (angle ? off : 0), 1);
    return copysignf((float)between(-1, sin(2 * M_PI * angle) * (1 + off), 1), angle ? (float)angle : x);
}
// Below 2^-8 a GPU passes the operand on; from there relative 2^-16.6, from 2 on 2^-18.6 (an H200's 2^-16.5 and
// 2^-18.5; the PTX ISA allows 2^-11).
float hyperbolic_tangent(float x) {
    double a = fabs((double)x);
    if (a < 0x1p-8) return x;
    double relative = a < 2 ? 0x1.5p-17 : a < 8 ? 0x1.5p-19 : 0;
    double y = tanh(a) * (1 + deviation(TANH, Parts(a).mantissa - 1, 64) * relative);
    return copysignf((float)between(0x1p-8, y, 1), x);
}

float approximated(Unary operation, float x, float accurate) {
    if (special(x) || (accurate != accurate)) return accurate;
    switch (operation) {
    case RCP: return (float)reciprocal(x);
    case SQRT: return root(x);
    case RSQRT: return inverse_root(x);
    case EX2: return exponential(x);
    case LG2: return logarithm(x);
    case SIN:
    case COS: return turn(operation, x);
    case TANH: return hyperbolic_tangent(x);
    }
    return accurate;
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 read and write the upper word alone (1.11.20), without denormals, and
// cut the result off, after adding 2^-25 to 2^-24 of it: that gives an H200's range of errors.
u64 gross(Unary operation, u64 x) {
    u64 sign = x & 1ull << 63, upper = x & ~0ull << 32;
    double a = f64_of(upper);
    if (a != a || (operation == RSQRT && a <= -0x1p-1022)) return 0x7fffffffull << 32;
    if (!(upper << 1 >> 53)) return sign | 0x7ffull << 52;
    if (fabs(a) == INFINITY) return sign;
    double y = operation == RCP ? 1 / a : 1 / sqrt(a);
    if (fabs(y) < 0x1p-1022) return sign;
    Parts p(y);
    if (JITTER && p.mantissa != 1) {
        double more = (deviation(operation, Parts(a).mantissa - 1) + 3) * 0x1p-26;
        y = copysign(fmin(p.mantissa * (1 + more), 2 - 0x1p-20) * power_of_two(p.exponent), y);
    }
    return bits(y) & ~0ull << 32;
}

// rsqrt.approx.f64 is emulated in software, to the last places: one of the two doubles around the exact value.
u64 inverse_root_f64(u64 x) {
    double a = f64_of(x);
    if (!JITTER || !(a > 0 && a < INFINITY)) return bits(1 / sqrt(a));
    bool tiny = a < 0x1p-1022;
    Quarters q(tiny ? a * 0x1p54 : a);
    double value = q.value(), y = 1 / sqrt(value);
    // value * y * y - 1, in twice the precision, says how far y is from the exact value.
    double square = y * y, product = value * square;
    double excess = product - 1 + (fma(value, square, -product) + value * fma(y, y, -square));
    double correction = -0.5 * excess * y, nearest = y + correction, rest = correction - (nearest - y);
    if (rest != 0 && mixed(JITTER ^ x) & 1) nearest = f64_of(bits(nearest) + (rest > 0 ? 1 : -1));
    return bits(nearest * power_of_two(tiny ? 27 - q.half : -q.half));
}

} // namespace

U32 approximate_f32(Unary operation, U32 x) {
    U32 accurate = unary_f32(operation, x);
    if (!JITTER) return accurate;
    return map([=](u32 a, u32 y) { return bits(approximated(operation, f32_of(a), f32_of(y))); }, x, accurate);
}
U64 gross_f64(Unary operation, U64 x) {
    return map([=](u64 a) { return gross(operation, a); }, x);
}
U64 approximate_rsqrt_f64(U64 x) {
    return map([](u64 a) { return inverse_root_f64(a); }, x);
}

// The dividend times the divisor's approximate reciprocal: 2 ulp, and x / x is not always 1. `full` over the whole
// range, else a divisor above 2^126 gives zero, or NaN for an infinite dividend.
U32 approximate_div_f32(U32 a, U32 b, bool full) {
    U32 accurate = div_f32(a, b);
    if (!JITTER && (full || !lt_f32(all32(0x7e800000), abs_f32(b)))) return accurate;
    A32 x = spread(a), y = spread(b), r = spread(accurate);
    for (int i = 0; i < LANES; i++) {
        float p = f32_of(x.e[i]), q = f32_of(y.e[i]);
        if (!full && fabsf(q) > 0x1p126f && fabsf(q) < INFINITY && p == p)
            r.e[i] = fabsf(p) == INFINITY ? 0x7fffffff : (x.e[i] ^ y.e[i]) & 0x80000000;
        else if (JITTER && !special(p) && !special(q))
            r.e[i] = bits((float)(p * reciprocal(q)));
    }
    return gather(r);
}

// ex2 and tanh of narrow floats: those of float32, cut off. ex2 of bfloat16 has no denormals (.ftz is part of it).
float approximate_half(Narrow kind, Half operation, float x, float y) {
    if (kind == BF16 && operation == H_EX2 && y < 0x1p-126f) return 0;
    if (!JITTER) return y;
    float found = approximated(operation == H_EX2 ? EX2 : TANH, x, y);
    if (special(found)) return found;
    if (kind == F16 && fabsf(found) < 0x1p-14f) return truncf(found * 0x1p24f) * 0x1p-24f;
    return f32_of(bits(found) & (kind == F16 ? 0xffffe000 : 0xffff0000));
}
