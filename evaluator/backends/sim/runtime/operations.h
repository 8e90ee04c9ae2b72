// Integer operations of PTX that are more than one vector word (PTX ISA 9.0, section 9.7.1 and 9.7.8).
#pragma once
#include "apart.h"
#include "asynchronous.h"
#include "matrix.h"
#include "video.h"

UNARY(f32_from_s32, c32, __builtin_convertvector((c32s)a, c32f))
UNARY(f32_from_u32, c32, __builtin_convertvector(a, c32f))

// Any function of three bits: `TABLE` bit (4a + 2b + c).
template <int TABLE> INLINE c32 lop3_chunk(c32 a, c32 b, c32 c) {
    c32 r = {};
    if (TABLE & 1) r |= ~a & ~b & ~c;
    if (TABLE & 2) r |= ~a & ~b & c;
    if (TABLE & 4) r |= ~a & b & ~c;
    if (TABLE & 8) r |= ~a & b & c;
    if (TABLE & 16) r |= a & ~b & ~c;
    if (TABLE & 32) r |= a & ~b & c;
    if (TABLE & 64) r |= a & b & ~c;
    if (TABLE & 128) r |= a & b & c;
    return r;
}
#ifdef QUICKLY
OPERATION U32 lop3_of(u32 table, In<U32> x, In<U32> y, In<U32> z) {
    U32 r = {};
    for (u32 bits = 0; bits < 8; bits++)
        if (table >> bits & 1) {
            U32 a = bits & 4 ? x : not_b32(x), b = bits & 2 ? y : not_b32(y), c = bits & 1 ? z : not_b32(z);
            r = or_b32(r, and_b32(a, and_b32(b, c)));
        }
    return r;
}
template <int TABLE> INLINE U32 lop3(const U32 &x, const U32 &y, const U32 &z) { return lop3_of(TABLE, x, y, z); }
#else
template <int TABLE> TERNARY(lop3, c32, lop3_chunk<TABLE>(a, b, c))
#endif

OPERATION U64 mul_wide_u32(In<U32> a, In<U32> b) { return mul_b64(widen_u(a), widen_u(b)); }
OPERATION U64 mul_wide_s32(In<U32> a, In<U32> b) { return mul_b64(widen_s(a), widen_s(b)); }
OPERATION U32 mul_hi_u32(In<U32> a, In<U32> b) { return high32(mul_wide_u32(a, b)); }
OPERATION U32 mul_hi_s32(In<U32> a, In<U32> b) { return high32(mul_wide_s32(a, b)); }
OPERATION U64 mul_hi_u64(In<U64> a, In<U64> b) {
    return map([](u64 x, u64 y) { return (u64)((unsigned __int128)x * y >> 64); }, a, b);
}
OPERATION U64 mul_hi_s64(In<U64> a, In<U64> b) {
    return map([](u64 x, u64 y) { return (u64)((__int128)(i64)x * (i64)y >> 64); }, a, b);
}
// What a division by zero gives is unspecified (PTX ISA 9.0, 9.7.1): made of what undefined memory is made of. All ones,
// which GPUs give for quotient and remainder, are one of its patterns.
INLINE u64 by_zero() { return undefined_word(); }
OPERATION U32 div_u32(In<U32> a, In<U32> b) {
    u32 none = (u32)by_zero();
    return map([none](u32 x, u32 y) { return y ? x / y : none; }, a, b);
}
OPERATION U32 rem_u32(In<U32> a, In<U32> b) {
    u32 none = (u32)by_zero();
    return map([none](u32 x, u32 y) { return y ? x % y : none; }, a, b);
}
OPERATION U32 div_s32(In<U32> a, In<U32> b) {
    u32 none = (u32)by_zero();
    return map([none](u32 x, u32 y) { return !y ? none : y == ~0u ? -x : (u32)((i32)x / (i32)y); }, a, b);
}
OPERATION U32 rem_s32(In<U32> a, In<U32> b) {
    u32 none = (u32)by_zero();
    return map([none](u32 x, u32 y) { return !y ? none : y == ~0u ? 0 : (u32)((i32)x % (i32)y); }, a, b);
}
OPERATION U64 div_u64(In<U64> a, In<U64> b) {
    u64 none = by_zero();
    return map([none](u64 x, u64 y) { return y ? x / y : none; }, a, b);
}
OPERATION U64 rem_u64(In<U64> a, In<U64> b) {
    u64 none = by_zero();
    return map([none](u64 x, u64 y) { return y ? x % y : none; }, a, b);
}
OPERATION U64 div_s64(In<U64> a, In<U64> b) {
    u64 none = by_zero();
    return map([none](u64 x, u64 y) { return !y ? none : y == ~0ull ? -x : (u64)((i64)x / (i64)y); }, a, b);
}
OPERATION U64 rem_s64(In<U64> a, In<U64> b) {
    u64 none = by_zero();
    return map([none](u64 x, u64 y) { return !y ? none : y == ~0ull ? 0 : (u64)((i64)x % (i64)y); }, a, b);
}
OPERATION U32 add_saturated_s32(In<U32> a, In<U32> b) {
    return map([](u32 x, u32 y) { i64 s = (i64)(i32)x + (i32)y; return (u32)(s > 0x7fffffff ? 0x7fffffff : s < -0x80000000ll ? -0x80000000ll : s); }, a, b);
}
OPERATION U32 sub_saturated_s32(In<U32> a, In<U32> b) {
    return map([](u32 x, u32 y) { i64 s = (i64)(i32)x - (i32)y; return (u32)(s > 0x7fffffff ? 0x7fffffff : s < -0x80000000ll ? -0x80000000ll : s); }, a, b);
}
OPERATION U32 popc32(In<U32> a) {
    return map([](u32 x) { return (u32)__builtin_popcount(x); }, a);
}
OPERATION U32 popc64(In<U64> a) {
    return map_narrow([](u64 x) { return (u32)__builtin_popcountll(x); }, a);
}
OPERATION U32 clz32(In<U32> a) {
    return map([](u32 x) { return x ? (u32)__builtin_clz(x) : 32u; }, a);
}
OPERATION U32 clz64(In<U64> a) {
    return map_narrow([](u64 x) { return x ? (u32)__builtin_clzll(x) : 64u; }, a);
}
INLINE u32 reversed(u32 x) {
    x = x >> 16 | x << 16;
    x = (x & 0xff00ff00) >> 8 | (x & 0x00ff00ff) << 8;
    x = (x & 0xf0f0f0f0) >> 4 | (x & 0x0f0f0f0f) << 4;
    x = (x & 0xcccccccc) >> 2 | (x & 0x33333333) << 2;
    return (x & 0xaaaaaaaa) >> 1 | (x & 0x55555555) << 1;
}
OPERATION U32 brev32(In<U32> a) {
    return map([](u32 x) { return reversed(x); }, a);
}
OPERATION U64 brev64(In<U64> a) {
    return map([](u64 x) { return (u64)reversed((u32)x) << 32 | reversed((u32)(x >> 32)); }, a);
}
// The position of the most significant bit that differs from the sign, -1 for none.
OPERATION U32 bfind32(In<U32> a, bool is_signed, bool shift) {
    return map([=](u32 x) { u32 y = is_signed && (i32)x < 0 ? ~x : x; return !y ? ~0u : shift ? (u32)__builtin_clz(y) : 31u - (u32)__builtin_clz(y); }, a);
}
OPERATION U32 bfind64(In<U64> a, bool is_signed, bool shift) {
    return map_narrow([=](u64 x) { u64 y = is_signed && (i64)x < 0 ? ~x : x; return !y ? ~0u : shift ? (u32)__builtin_clzll(y) : 63u - (u32)__builtin_clzll(y); }, a);
}
template <class T> INLINE T bit_field(T x, u32 position, u32 length, bool is_signed) {
    u32 width = sizeof(T) * 8, top = position + length - 1;
    position &= 0xff;
    length &= 0xff;
    top = position + length - 1 < width - 1 ? position + length - 1 : width - 1;
    T sign = is_signed && length ? x >> top & 1 : 0, r = sign ? (T)~(T)0 : 0;
    for (u32 i = 0; i < width; i++) {
        T bit = i < length && position + i < width ? x >> (position + i) & 1 : sign;
        r = (r & ~((T)1 << i)) | bit << i;
    }
    return r;
}
OPERATION U32 bfe32(In<U32> a, In<U32> b, In<U32> c, bool is_signed) {
    return map([=](u32 x, u32 y, u32 z) { return bit_field(x, y, z, is_signed); }, a, b, c);
}
OPERATION U64 bfe64(In<U64> a, In<U32> b, In<U32> c, bool is_signed) {
    return map([=](u64 x, u64 y, u64 z) { return bit_field(x, (u32)y, (u32)z, is_signed); }, a, widen_u(b), widen_u(c));
}
template <class T> INLINE T insert_field(T x, T into, u32 position, u32 length) {
    u32 width = sizeof(T) * 8;
    position &= 0xff;
    length &= 0xff;
    for (u32 i = 0; i < length && position + i < width; i++)
        into = (into & ~((T)1 << (position + i))) | (x >> i & 1) << (position + i);
    return into;
}
OPERATION U32 bfi32(In<U32> a, In<U32> b, In<U32> c, In<U32> d) {
    A32 x = spread(a), y = spread(b), z = spread(c), v = spread(d);
    for (int i = 0; i < LANES; i++) x.e[i] = insert_field(x.e[i], y.e[i], z.e[i], v.e[i]);
    return gather(x);
}
OPERATION U64 bfi64(In<U64> a, In<U64> b, In<U32> c, In<U32> d) {
    A64 x = spread(a), y = spread(b);
    A32 z = spread(c), v = spread(d);
    for (int i = 0; i < LANES; i++) x.e[i] = insert_field(x.e[i], y.e[i], z.e[i], v.e[i]);
    return gather(x);
}
OPERATION U32 bmsk(In<U32> a, In<U32> b, bool clamp) {
    return map(
        [=](u32 from, u32 width) {
            if (!clamp) from &= 31, width &= 31;
            if (from > 31) return 0u;
            return (width > 31 ? ~0u : (1u << width) - 1) << from;
        },
        a, b);
}
OPERATION U32 szext(In<U32> a, In<U32> b, bool is_signed, bool clamp) {
    return map(
        [=](u32 x, u32 width) {
            if (width > 31 && clamp) return x;
            width &= 31;
            u32 low = (1u << width) - 1, negative = is_signed && width && x >> (width - 1) & 1;
            return negative ? x | ~low : x & low;
        },
        a, b);
}
// The n-th set bit from a base upwards, or downwards for a negative n; 0 asks whether the base itself is set.
OPERATION U32 fns(In<U32> a, In<U32> b, In<U32> c) {
    return map(
        [](u32 mask, u32 base, u32 n) {
            int step = (i32)n < 0 ? -1 : 1, left = (i32)n < 0 ? -(i32)n : n ? (i32)n : 1, at = (int)base;
            if (!n) return at < 32 && mask >> at & 1 ? base : ~0u;
            for (; at >= 0 && at < 32; at += step)
                if (mask >> at & 1 && !--left) return (u32)at;
            return ~0u;
        },
        a, b, c);
}
OPERATION U32 prmt(In<U32> a, In<U32> b, In<U32> c) {
    return map(
        [](u32 x, u32 y, u32 s) {
            u64 bytes = (u64)y << 32 | x;
            u32 r = 0;
            for (int i = 0; i < 4; i++) {
                u32 pick = s >> (4 * i) & 15, byte = (u32)(bytes >> (8 * (pick & 7))) & 0xff;
                if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
                r |= byte << (8 * i);
            }
            return r;
        },
        a, b, c);
}
OPERATION U32 one_of_four(In<U32> a, u32 p, u32 q, u32 r, u32 s) {
    return map([=](u32 x) { return x & 2 ? (x & 1 ? s : r) : (x & 1 ? q : p); }, a);
}
// cvt.pack: two numbers, cut to a small type's range, and what else fits of a third word above them.
OPERATION U32 packed(int bits, bool is_signed, In<U32> a, In<U32> b, In<U32> c) {
    i64 low = is_signed ? -(1ll << (bits - 1)) : 0, high = (1ll << (is_signed ? bits - 1 : bits)) - 1;
    u64 field = (1ull << bits) - 1;
    auto cut = [=](u32 x) { i64 v = (i32)x; return (u64)(v < low ? low : v > high ? high : v) & field; };
    return map([=](u32 x, u32 y, u32 z) { return (u32)(cut(y) | cut(x) << bits | (u64)z << 2 * bits); }, a, b, c);
}
OPERATION U32 funnel_left(In<U32> a, In<U32> b, In<U32> c, bool clamp) {
    return map([=](u32 lo, u32 hi, u32 n) { n = clamp ? (n > 32 ? 32 : n) : n & 31; return n == 32 ? lo : (u32)((((u64)hi << 32 | lo) << n) >> 32); }, a, b, c);
}
OPERATION U32 funnel_right(In<U32> a, In<U32> b, In<U32> c, bool clamp) {
    return map([=](u32 lo, u32 hi, u32 n) { n = clamp ? (n > 32 ? 32 : n) : n & 31; return n == 32 ? hi : (u32)(((u64)hi << 32 | lo) >> n); }, a, b, c);
}
// Dot products of bytes (PARTS 4), or of two 16-bit with two bytes (PARTS 2; HIGH takes the upper bytes).
INLINE i64 small(u32 x, int at, int width, bool is_signed) {
    u32 v = x >> at & ((1u << width) - 1);
    return is_signed && v >> (width - 1) ? (i64)v - (1ll << width) : (i64)v;
}
OPERATION U32 dp4a(In<U32> a, In<U32> b, In<U32> c, bool a_signed, bool b_signed) {
    return map([=](u32 x, u32 y, u32 z) { for (int i = 0; i < 4; i++) z += (u32)(small(x, 8 * i, 8, a_signed) * small(y, 8 * i, 8, b_signed)); return z; }, a, b, c);
}
OPERATION U32 dp2a(In<U32> a, In<U32> b, In<U32> c, bool a_signed, bool b_signed, bool high) {
    return map([=](u32 x, u32 y, u32 z) { for (int i = 0; i < 2; i++) z += (u32)(small(x, 16 * i, 16, a_signed) * small(y, 8 * i + 16 * high, 8, b_signed)); return z; }, a, b, c);
}
// float32 to tf32: 10 mantissa bits, to nearest, ties away or to even; or towards zero. Ties away keep of a NaN the upper
// bits, even where those are infinity's, and the others make it the canonical one (measured).
INLINE bool is_nan(u32 x) { return (x & 0x7fffffff) > 0x7f800000; }
OPERATION U32 to_tf32(In<U32> a, bool away) {
    return map(
        [=](u32 x) {
            if (is_nan(x) && !away) return 0x7fffe000u;
            u32 up = (x & 0x7f800000) == 0x7f800000 ? 0 : away ? 0x1000 : 0xfff + (x >> 13 & 1);
            return (x + up) & 0xffffe000;
        },
        a);
}
OPERATION U32 tf32_towards_zero(In<U32> a) {
    return map([](u32 x) { return is_nan(x) ? 0x7fffe000 : x & 0xffffe000; }, a);
}
OPERATION U32 tf32_satfinite(In<U32> a) {
    return map([](u32 x) { return (x & 0x7fffffff) == 0x7f800000 ? (x & 0x80000000) | 0x7f7fe000 : x; }, a);
}
OPERATION U32 tf32_relu(In<U32> a) {
    return map([](u32 x) { return is_nan(x) ? 0x7fffffffu : x >> 31 ? 0u : x; }, a);
}
INLINE U32 lane_ids() {
    A32 r;
    for (int i = 0; i < LANES; i++) r.e[i] = (u32)i;
    return gather(r);
}

// bar.warp.sync
INLINE void sync_members(Warp &w, u32 mask, const U32 &members, i32 place) {
    warp_sync(w, mask, members, true);
    u32 unnamed = mask & eq_b32(and_b32(members, shl_b32(all32(1), lane_ids())), all32(0));
    if (__builtin_expect(unnamed != 0, 0)) unnamed_members(place, "`__syncwarp`", unnamed);
}

// A barrier's number or thread count: warps arrive as wholes, so all lanes must give the same.
INLINE u32 of_warp(Warp &w, u32 mask, const U32 &x, i32 place) {
    u32 r = spread(x).e[__builtin_ctz(mask)], others = mask & ~eq_b32(x, all32(r));
    if (__builtin_expect(others != 0, 0))
        fault(w, others, "bad_barrier", place, "named another barrier or thread count than other threads of its warp");
    return r;
}

OPERATION U32 pair16(In<U32> lo, In<U32> hi) { return or_b32(low16(lo), shl_b32(hi, all32(16))); }
OPERATION U32 high16(In<U32> x) { return shr_u32(x, all32(16)); }
OPERATION U32 half2_operation(Narrow kind, Half operation, In<U32> a, In<U32> b, In<U32> c) {
    return pair16(half_operation(kind, operation, low16(a), low16(b), low16(c)),
                  half_operation(kind, operation, high16(a), high16(b), high16(c)));
}
// What may follow an operation on halves: NaN if an operand is one, nothing below 0 (NaN stays), or all within [0, 1].
OPERATION u32 half_nans(Narrow kind, In<U32> x) { return lt_u32(all32(kind == F16 ? 0x7c00 : 0x7f80), and_b32(x, all32(0x7fff))); }
OPERATION U32 half_or_nan(Narrow kind, In<U32> r, In<U32> a, In<U32> b) { return pick(half_nans(kind, a) | half_nans(kind, b), all32(0x7fff), r); }
OPERATION U32 half_relu(Narrow kind, In<U32> x) {
    return pick(half_nans(kind, x), all32(0x7fff), pick(ne_b32(and_b32(x, all32(0x8000)), all32(0)), all32(0), x));
}
OPERATION U32 half_satfinite(Narrow kind, In<U32> x) {
    u32 infinity = kind == F16 ? 0x7c00 : 0x7f80;
    return pick(eq_b32(and_b32(x, all32(0x7fff)), all32(infinity)), sub_b32(x, all32(1)), x);
}
// A subnormal becomes a zero of its sign.
OPERATION U32 half_flush(Narrow kind, In<U32> x) {
    u32 exponent = kind == F16 ? 0x7c00 : 0x7f80;
    return pick(eq_b32(and_b32(x, all32(exponent)), all32(0)), and_b32(x, all32(0x8000)), x);
}
OPERATION U32 positive_halves(In<U32> x) {
    return pair16(max_s32(extend_s16(low16(x)), all32(0)), max_s32(extend_s16(high16(x)), all32(0)));
}
OPERATION U32 half_sat(Narrow kind, In<U32> x) { return narrow_float(kind, NEAREST, saturate_f32(widen_float(kind, x))); }
