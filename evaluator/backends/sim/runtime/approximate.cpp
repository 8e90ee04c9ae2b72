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
#if CHUNK == 64
#include <immintrin.h>
#endif

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
// ARITH 2005). LG2 and TANH begin again after 64 knots, the others after 128.
enum : u32 { KNOTS = 130 }; // those of [0, 2], and the next one
struct Knots {
    u64 jitter; // that drew them
    double of[TANH + 1][KNOTS];
};
Knots DRAWN;

const double *knots(Unary operation) {
    if (DRAWN.jitter != JITTER) {
        for (u32 each = 0; each <= TANH; each++)
            for (u32 n = 0; n < KNOTS; n++)
                DRAWN.of[each][n] = (double)(i64)mixed(JITTER ^ (u64)each << 40 ^ n % (each == LG2 || each == TANH ? 64 : 128)) * 0x1p-63;
        DRAWN.jitter = JITTER;
    }
    return DRAWN.of[operation];
}
double deviation(Unary operation, double place) {
    if (!JITTER) return 0;
    double scaled = place * 64;
    u32 left = (u32)scaled;
    const double *knot = knots(operation) + left;
    return knot[0] + (knot[1] - knot[0]) * (scaled - left);
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
// Of numbers; the library's fmax and fmin are calls.
INLINE double larger(double a, double b) { return a > b ? a : b; }
INLINE double smaller(double a, double b) { return a < b ? a : b; }
INLINE double between(double low, double x, double high) { return smaller(larger(x, low), high); }

// In units of the result's last place, before it is rounded: 1/x and sqrt(x) are rounded correctly where they are
// representable, and in all within 0.82 ulp (an H200's 0.98 and 0.94; relative 2^-23.3, as there).
constexpr double SHIFT_ULP = 0.32;

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
    return (float)(larger(1, y) * power_of_two(q.half));
}
// Relative 2^-24 before it is rounded, 2^-23 in all (an H200's 2^-22.94).
float inverse_root(double x) {
    Quarters q(x);
    double y = 1 / sqrt(q.value()); // in (1/2, 1]
    if (y != 1) y = between(0.5, y * (1 + deviation(RSQRT, q.place()) * 0x1p-24), 1);
    return (float)(y * power_of_two(-q.half));
}
// 2^-23.75 before it is rounded: absolute 2^-23.2 in (1/2, 2), relative 2^-22.8 elsewhere (an H200's 2^-22.15 and
// 2^-22.1, with which __log10f is just beyond its documented 2^-24). Next to 1 an H200 has between a seventh of the
// exact value and 1.6 times it.
float logarithm(double x) {
    Parts p(x);
    if (p.mantissa == 1 && p.exponent >= 0) return (float)p.exponent;
    double exact = p.exponent == -1 ? log2(x) : p.exponent + log2(p.mantissa);
    double y = exact + deviation(LG2, p.mantissa - 1) * 0x1.3p-24;
    if (p.exponent >= 0) y = between(p.exponent, y, p.exponent + 1);
    if (p.exponent == 0) y = larger(y, 0.2 * exact);
    if (p.exponent == -1) y = smaller(y, 0.2 * exact);
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
    double y = tanh(a) * (1 + deviation(TANH, Parts(a).mantissa - 1) * relative);
    return copysignf((float)between(0x1p-8, y, 1), x);
}

float approximated(Unary operation, float x, float accurate) {
    if (special(x) || (accurate != accurate)) return accurate;
    switch (operation) {
    case SQRT: return root(x);
    case RSQRT: return inverse_root(x);
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
        y = copysign(smaller(p.mantissa * (1 + more), 2 - 0x1p-20) * power_of_two(p.exponent), y);
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

// The same for all lanes at once, where they come by the billion: exponentials, and quotients.

typedef float HalfFloats __attribute__((vector_size(CHUNK / 2)));
enum { PARTS = LANES / PER64 };
struct Wide { // 32 lanes of double
    c64f part[PARTS];
};
INLINE Wide wide(const U32 &x) {
    HalfFloats half[PARTS];
    __builtin_memcpy(half, &x, sizeof half);
    Wide r;
    for (int i = 0; i < PARTS; i++) r.part[i] = __builtin_convertvector(half[i], c64f);
    return r;
}
INLINE U32 rounded(const Wide &x) {
    HalfFloats half[PARTS];
    for (int i = 0; i < PARTS; i++) half[i] = __builtin_convertvector(x.part[i], HalfFloats);
    U32 r;
    __builtin_memcpy(&r, half, sizeof r);
    return r;
}
INLINE c64f chosen(c64s which, c64f yes, c64f no) { return which ? yes : no; }
INLINE c64f deviations(const double *knots, c64f place) {
    c64f scaled = place * 64, low, high;
    c64s left = __builtin_convertvector(scaled, c64s);
#if CHUNK == 64
    low = (c64f)_mm512_i64gather_pd((__m512i)left, knots, 8), high = (c64f)_mm512_i64gather_pd((__m512i)left, knots + 1, 8);
#else
    for (int i = 0; i < PER64; i++) low[i] = knots[left[i]], high[i] = knots[left[i] + 1];
#endif
    return low + (high - low) * (scaled - __builtin_convertvector(left, c64f));
}

// 2^x for x in [0, 1], within 2^-46 of it: the series of exp(x ln 2) around 1/2.
INLINE void powers_of_fractions(Wide &x) {
    // sqrt(2) ln(2)^n / n!, from n = 11 down
    static const double terms[] = {
        0x1.59a0d25f61fc7p-31, 0x1.56cff45438d97p-27, 0x1.351bc8299ee8fp-23, 0x1.f5b1687066adap-20,
        0x1.69e51ed115674p-16, 0x1.c8d752e2475fdp-13, 0x1.ee4fd234aabe3p-10, 0x1.bdb696e8a0afcp-7,
        0x1.41839eb881562p-4, 0x1.5be298adf0352p-2, 0x1.f5e46537ab907p-1, 0x1.6a09e667f3bcdp+0};
    Wide y;
#pragma GCC unroll 16
    for (int i = 0; i < PARTS; i++) x.part[i] -= 0.5, y.part[i] = c64f{} + terms[0];
    for (u32 n = 1; n < sizeof terms / sizeof *terms; n++) {
        c64f term = c64f{} + terms[n];
#pragma GCC unroll 16
        for (int i = 0; i < PARTS; i++) y.part[i] = (c64f)fma_chunk((c64)y.part[i], (c64)x.part[i], (c64)term);
    }
    x = y;
}

// 0.7 ulp before it is rounded, 1.2 in all (an H200's 1.39 above and 2.06 below the exact value).
U32 exponentials(const U32 &x) {
    const double *drawn = knots(EX2);
    Wide all = wide(x), fractions, powers;
    for (int i = 0; i < PARTS; i++) {
        c64f a = chosen(all.part[i] > -152, all.part[i], c64f{} - 152); // a NaN too
        a = chosen(a < 128, a, c64f{} + 128);
        c64f whole = __builtin_convertvector(__builtin_convertvector(a, c64s), c64f); // towards 0
        all.part[i] = whole = chosen(whole > a, whole - 1, whole);
        fractions.part[i] = powers.part[i] = a - whole;
    }
    powers_of_fractions(powers);
    for (int i = 0; i < PARTS; i++) {
        c64f fraction = fractions.part[i], y = powers.part[i] + deviations(drawn, fraction) * (0.7 * 0x1p-23);
        y = chosen(y > 1, y, c64f{} + 1);
        y = chosen(y < 2, y, c64f{} + 2);
        y = chosen(fraction == 0, c64f{} + 1, y);
        // What is below half the smallest denormal is rounded to zero.
        all.part[i] = y * (c64f)((__builtin_convertvector(all.part[i], c64s) + 1023) << 52);
    }
    return pick(unordered_f32(x, x), all32(0x7fffffff), rounded(all));
}

// 1 / x, where that is neither zero nor infinite nor no number. Only of a power of two is its mantissa one: nvcc's
// 128-bit division takes the mantissa's bits of it less one, and of 2^k - 1 would otherwise take them below zero.
INLINE void reciprocals(Wide &x) {
    const double *drawn = knots(RCP);
    for (c64f &each : x.part) {
        c64 pattern = (c64)each & ~(1ull << 63), sign = (c64)each & 1ull << 63;
        c64f mantissa = (c64f)((pattern & ~(0x7ffull << 52)) | 1023ull << 52);
        c64f y = 1 / mantissa + deviations(drawn, mantissa - 1) * (SHIFT_ULP * 0x1p-24);
        y = chosen((mantissa == 1) | (y > 0x1.000002p-1), y, c64f{} + 0x1.000002p-1);
        y = __builtin_convertvector(__builtin_convertvector(y, HalfFloats), c64f);
        each = (c64f)((c64)(y * (c64f)((2046 - (pattern >> 52)) << 52)) | sign);
    }
}
INLINE u32 special_lanes(const U32 &x) { // zeros, infinities and NaN
    U32 size = abs_f32(x);
    return eq_b32(size, all32(0)) | ~lt_u32(size, all32(0x7f800000));
}

} // namespace

U32 approximate_f32(Unary operation, U32 x) {
    if (JITTER && operation == EX2) return exponentials(x);
    if (JITTER && operation == RCP) {
        u32 exact = special_lanes(x);
        Wide y = wide(exact ? pick(exact, all32(0x3f800000), x) : x);
        reciprocals(y);
        return exact ? pick(exact, unary_f32(RCP, x), rounded(y)) : rounded(y);
    }
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
    U32 size = abs_f32(b), r = div_f32(a, b);
    if (JITTER) {
        u32 exact = special_lanes(a) | special_lanes(b);
        Wide p = wide(a), q = wide(exact ? pick(exact, all32(0x3f800000), b) : b);
        reciprocals(q);
        for (int i = 0; i < PARTS; i++) p.part[i] *= q.part[i];
        r = exact ? pick(exact, r, rounded(p)) : rounded(p);
    }
    u32 large = full ? 0 : lt_f32(all32(0x7e800000), size) & lt_u32(size, all32(0x7f800000)) & ~unordered_f32(a, a);
    if (large) {
        U32 zero = and_b32(xor_b32(a, b), all32(0x80000000));
        r = pick(large, pick(eq_b32(abs_f32(a), all32(0x7f800000)), all32(0x7fffffff), zero), r);
    }
    return r;
}

// ex2 and tanh of narrow floats: those of float32, cut off. ex2 of bfloat16 has no denormals (.ftz is part of it).
float approximate_half(Narrow kind, Half operation, float x, float y) {
    if (kind == BF16 && operation == H_EX2 && y < 0x1p-126f) return 0;
    if (!JITTER) return y;
    if (special(x) || y != y) return y;
    float found = operation == H_EX2 ? f32_of(spread(exponentials(all32(bits(x)))).e[0]) : hyperbolic_tangent(x);
    if (special(found)) return found;
    if (kind == F16 && fabsf(found) < 0x1p-14f) return truncf(found * 0x1p24f) * 0x1p-24f;
    return f32_of(bits(found) & (kind == F16 ? 0xffffe000 : 0xffff0000));
}
