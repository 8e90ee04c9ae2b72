// Video instructions, lane by lane. Intermediate results are signed and have 34 bits, as the ISA says; those of `vmad` 128.
// What ptxas 13.0 makes of them for sm_90 does less: `vadd` and `vsub` of whole words lose the 33rd bit before they
// saturate at the upper end or take a minimum, and `vmad` extends an unsigned third operand by its sign.
#include "video.h"

namespace {

typedef __int128 wide;

i64 number(u32 word, const Field &f) {
    u64 bits = (u64)word >> f.at & ((1ull << f.bits) - 1);
    return f.is_signed && bits >> (f.bits - 1) ? (i64)bits - (1ll << f.bits) : (i64)bits;
}

wide clamped(wide x, int bits, bool is_signed) {
    wide low = is_signed ? -((wide)1 << (bits - 1)) : 0, high = ((wide)1 << (is_signed ? bits - 1 : bits)) - 1;
    return x < low ? low : x > high ? high : x;
}

wide computed(VideoOperation operation, wide a, wide b) {
    switch (operation) {
    case V_ADD: return a + b;
    case V_SUB: return a - b;
    case V_AVRG: return (a + b + (a + b >= 0)) >> 1;
    case V_ABSDIFF: return a < b ? b - a : a - b;
    case V_MIN: return a < b ? a : b;
    case V_MAX: return a > b ? a : b;
    case V_SHL: return (wide)((unsigned __int128)a << (int)b);
    case V_SHR: return a >> (int)b;
    case V_EQ: return a == b;
    case V_NE: return a != b;
    case V_LT: return a < b;
    case V_LE: return a <= b;
    case V_GT: return a > b;
    case V_GE: return a >= b;
    }
    return 0;
}

} // namespace

U32 video_word(VideoOperation operation, Field x, Field y, Field to, bool saturate, VideoEnd end, U32 a, U32 b, U32 c) {
    return map(
        [=](u32 p, u32 q, u32 r) {
            wide t = computed(operation, number(p, x), number(q, y));
            t = (wide)((unsigned __int128)t << (128 - 34)) >> (128 - 34);
            if (saturate) t = clamped(t, to.bits, to.is_signed);
            i64 third = to.is_signed ? (i64)(i32)r : (i64)r;
            u32 field = (u32)(((1ull << to.bits) - 1) << to.at);
            switch (end) {
            case V_PLAIN: return (u32)t;
            case V_PLUS: return (u32)(t + third);
            case V_LEAST: return (u32)(t < third ? t : third);
            case V_MOST: return (u32)(t > third ? t : third);
            case V_MERGED: return ((u32)t << to.at & field) | (r & ~field);
            }
            return 0u;
        },
        a, b, c);
}

U32 video_mad(Field x, Field y, Product128 how, U32 a, U32 b, U32 c) {
    bool is_signed = x.is_signed || y.is_signed || how.minus || how.minus_c;
    return map(
        [=](u32 p, u32 q, u32 r) {
            wide t = (wide)number(p, x) * number(q, y);
            int last = 0;
            if (how.one_more) last = 1;
            else if (how.minus) t = ~t, last = 1;
            else if (how.minus_c) r = ~r, last = 1;
            t = (t + (is_signed ? (wide)(i32)r : (wide)r) + last) >> how.shift;
            return (u32)(how.saturate ? clamped(t, 32, is_signed) : t);
        },
        a, b, c);
}

U32 video_elements(VideoOperation operation, Elements of, bool is_signed, bool saturate, bool accumulate, U32 a, U32 b, U32 c) {
    return map(
        [=](u32 p, u32 q, u32 r) {
            u32 sum = r, merged = 0, each = (1u << of.bits) - 1;
            int count = 32 / of.bits;
            for (int i = 0; i < count; i++) {
                int m = (int)(of.of_a >> 4 * i & 15), n = (int)(of.of_b >> 4 * i & 15);
                wide t = computed(operation, number(m < count ? p : q, {of.bits, m % count * of.bits, of.a_signed}),
                                  number(n < count ? p : q, {of.bits, n % count * of.bits, of.b_signed}));
                if (saturate) t = clamped(t, of.bits, is_signed);
                bool taken = of.mask >> i & 1;
                if (taken) sum += (u32)t;
                merged |= ((taken ? (u32)t : r >> i * of.bits) & each) << i * of.bits;
            }
            return accumulate ? sum : merged;
        },
        a, b, c);
}
