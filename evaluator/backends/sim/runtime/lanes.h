// Lanes: one PTX register of a warp as a pack of the machine's own vectors, and elementwise operations on it.
//
// U32 holds 32 lanes of 32 bits (also for 8 and 16-bit registers, upper bits zero), U64 32 lanes of 64 bits. A
// predicate is a u32 with one bit a lane. Packs nest instead of using arrays, so that the compiler keeps them in
// registers.
#pragma once
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

#define INLINE static inline __attribute__((always_inline))
// An operation on whole packs. A program that runs little calls it where operations.cpp has it: inlined where nothing is
// made of the text, each is a long row of moves, which takes most of the time of compiling.
#ifdef QUICKLY
#ifdef OPERATIONS
#define OPERATION __attribute__((noinline))
#else
#define OPERATION extern inline __attribute__((gnu_inline))
#endif
template <class T> using In = const T &;
#else
#define OPERATION INLINE
template <class T> using In = T;
#endif
#define NOINLINE __attribute__((noinline))

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define CHUNK 64
#elif defined(__AVX2__)
#define CHUNK 32
#else
#define CHUNK 16
#endif
enum { LANES = 32, PER32 = CHUNK / 4, PER64 = CHUNK / 8 };

typedef u32 c32 __attribute__((vector_size(CHUNK)));
typedef i32 c32s __attribute__((vector_size(CHUNK)));
typedef float c32f __attribute__((vector_size(CHUNK)));
typedef u64 c64 __attribute__((vector_size(CHUNK)));
typedef i64 c64s __attribute__((vector_size(CHUNK)));
typedef double c64f __attribute__((vector_size(CHUNK)));
typedef u32 h32 __attribute__((vector_size(CHUNK / 2)));
typedef i32 h32s __attribute__((vector_size(CHUNK / 2)));

// Flat members instead of arrays or nested packs: each operation is one small function, quick to compile.
#if CHUNK == 64
#define REPEAT_c32(M, ...) M(0, __VA_ARGS__) M(1, __VA_ARGS__)
#define REPEAT_c64(M, ...) M(0, __VA_ARGS__) M(1, __VA_ARGS__) M(2, __VA_ARGS__) M(3, __VA_ARGS__)
#elif CHUNK == 32
#define REPEAT_c32(M, ...) M(0, __VA_ARGS__) M(1, __VA_ARGS__) M(2, __VA_ARGS__) M(3, __VA_ARGS__)
#define REPEAT_c64(M, ...)                                                                                             \
    REPEAT_c32(M, __VA_ARGS__) M(4, __VA_ARGS__) M(5, __VA_ARGS__) M(6, __VA_ARGS__) M(7, __VA_ARGS__)
#else
#define REPEAT_c32(M, ...)                                                                                             \
    M(0, __VA_ARGS__) M(1, __VA_ARGS__) M(2, __VA_ARGS__) M(3, __VA_ARGS__)                                            \
    M(4, __VA_ARGS__) M(5, __VA_ARGS__) M(6, __VA_ARGS__) M(7, __VA_ARGS__)
#define REPEAT_c64(M, ...)                                                                                             \
    REPEAT_c32(M, __VA_ARGS__) M(8, __VA_ARGS__) M(9, __VA_ARGS__) M(10, __VA_ARGS__) M(11, __VA_ARGS__)               \
    M(12, __VA_ARGS__) M(13, __VA_ARGS__) M(14, __VA_ARGS__) M(15, __VA_ARGS__)
#endif
#define MEMBER(i, C) C v##i;
struct U32 {
    REPEAT_c32(MEMBER, c32)
};
struct U64 {
    REPEAT_c64(MEMBER, c64)
};
typedef U32 PACK_c32;
typedef U64 PACK_c64;
enum { COUNT_c32 = PER32, COUNT_c64 = PER64 };

// Plain arrays, for work lane by lane.
struct alignas(64) A32 {
    u32 e[LANES];
};
struct alignas(64) A64 {
    u64 e[LANES];
};

INLINE A32 spread(U32 x) {
    A32 r;
    __builtin_memcpy(&r, &x, sizeof r);
    return r;
}
INLINE A64 spread(U64 x) {
    A64 r;
    __builtin_memcpy(&r, &x, sizeof r);
    return r;
}
INLINE U32 gather(const A32 &x) {
    U32 r;
    __builtin_memcpy(&r, &x, sizeof r);
    return r;
}
INLINE U64 gather(const A64 &x) {
    U64 r;
    __builtin_memcpy(&r, &x, sizeof r);
    return r;
}

#define ALL_STEP(i, C) r.v##i = C{} + k;
OPERATION U32 all32(u32 k) {
    U32 r;
    REPEAT_c32(ALL_STEP, c32) return r;
}
OPERATION U64 all64(u64 k) {
    U64 r;
    REPEAT_c64(ALL_STEP, c64) return r;
}

// Bits from a vector comparison (each lane 0 or -1).
INLINE u32 bits_of(c32s m) {
#if CHUNK == 64
    typedef int native __attribute__((vector_size(64)));
    return (u16)__builtin_ia32_cvtd2mask512((native)m);
#elif CHUNK == 32
    return (u32)__builtin_ia32_movmskps256((c32f)m);
#elif defined(__SSE2__)
    return (u32)__builtin_ia32_movmskps((c32f)m);
#else
    u32 r = 0;
    for (int i = 0; i < PER32; i++) r |= (u32)(m[i] & 1) << i;
    return r;
#endif
}
INLINE u32 bits_of(c64s m) {
#if CHUNK == 64
    typedef long long native __attribute__((vector_size(64)));
    return (u8)__builtin_ia32_cvtq2mask512((native)m);
#elif CHUNK == 32
    return (u32)__builtin_ia32_movmskpd256((c64f)m);
#elif defined(__SSE2__)
    return (u32)__builtin_ia32_movmskpd((c64f)m);
#else
    u32 r = 0;
    for (int i = 0; i < PER64; i++) r |= (u32)(m[i] & 1) << i;
    return r;
#endif
}

#define UNARY_STEP(i, C, expression)                                                                                   \
    {                                                                                                                  \
        C a = x.v##i;                                                                                                  \
        r.v##i = (C)(expression);                                                                                      \
    }
#define BINARY_STEP(i, C, expression)                                                                                  \
    {                                                                                                                  \
        C a = x.v##i, b = y.v##i;                                                                                      \
        r.v##i = (C)(expression);                                                                                      \
    }
#define TERNARY_STEP(i, C, expression)                                                                                 \
    {                                                                                                                  \
        C a = x.v##i, b = y.v##i, c = z.v##i;                                                                          \
        r.v##i = (C)(expression);                                                                                      \
    }
#define COMPARE_STEP(i, C, expression)                                                                                 \
    {                                                                                                                  \
        C a = x.v##i, b = y.v##i;                                                                                      \
        r |= bits_of(expression) << (i * COUNT_##C);                                                                   \
    }
#define UNARY(name, C, expression)                                                                                     \
    OPERATION PACK_##C name(In<PACK_##C> x) {                                                                          \
        PACK_##C r;                                                                                                    \
        REPEAT_##C(UNARY_STEP, C, expression) return r;                                                                \
    }
#define BINARY(name, C, expression)                                                                                    \
    OPERATION PACK_##C name(In<PACK_##C> x, In<PACK_##C> y) {                                                          \
        PACK_##C r;                                                                                                    \
        REPEAT_##C(BINARY_STEP, C, expression) return r;                                                               \
    }
#define TERNARY(name, C, expression)                                                                                   \
    OPERATION PACK_##C name(In<PACK_##C> x, In<PACK_##C> y, In<PACK_##C> z) {                                          \
        PACK_##C r;                                                                                                    \
        REPEAT_##C(TERNARY_STEP, C, expression) return r;                                                              \
    }
#define COMPARE(name, C, expression)                                                                                   \
    OPERATION u32 name(In<PACK_##C> x, In<PACK_##C> y) {                                                               \
        u32 r = 0;                                                                                                     \
        REPEAT_##C(COMPARE_STEP, C, expression) return r;                                                              \
    }
#define INTEGER_OPERATIONS(suffix, C, S, BITS)                                                                         \
    BINARY(add_##suffix, C, a + b)                                                                                     \
    BINARY(sub_##suffix, C, a - b)                                                                                     \
    BINARY(mul_##suffix, C, a *b)                                                                                      \
    BINARY(and_##suffix, C, a &b)                                                                                      \
    BINARY(or_##suffix, C, a | b)                                                                                      \
    BINARY(xor_##suffix, C, a ^ b)                                                                                     \
    UNARY(not_##suffix, C, ~a)                                                                                         \
    UNARY(neg_##suffix, C, -a)                                                                                         \
    UNARY(abs_##suffix, C, (C)((((S)a >> (BITS - 1)) ^ (S)a) - ((S)a >> (BITS - 1))))                                  \
    BINARY(min_u##BITS, C, (a & (C)(a < b)) | (b & ~(C)(a < b)))                                                       \
    BINARY(max_u##BITS, C, (a & (C)(a > b)) | (b & ~(C)(a > b)))                                                       \
    BINARY(min_s##BITS, C, (a & (C)((S)a < (S)b)) | (b & ~(C)((S)a < (S)b)))                                           \
    BINARY(max_s##BITS, C, (a & (C)((S)a > (S)b)) | (b & ~(C)((S)a > (S)b)))                                           \
    BINARY(shl_##suffix, C, (a << (b & (BITS - 1))) & (C)(b < BITS))                                                   \
    BINARY(shr_u##BITS, C, (a >> (b & (BITS - 1))) & (C)(b < BITS))                                                    \
    BINARY(shr_s##BITS, C, (S)a >> (S)((b & (C)(b < BITS)) | ((BITS - 1) & (C)(b >= BITS))))                           \
    COMPARE(eq_##suffix, C, a == b)                                                                                    \
    COMPARE(ne_##suffix, C, a != b)                                                                                    \
    COMPARE(lt_u##BITS, C, a < b)                                                                                      \
    COMPARE(le_u##BITS, C, a <= b)                                                                                     \
    COMPARE(lt_s##BITS, C, (S)a < (S)b)                                                                                \
    COMPARE(le_s##BITS, C, (S)a <= (S)b)
INTEGER_OPERATIONS(b32, c32, c32s, 32)
INTEGER_OPERATIONS(b64, c64, c64s, 64)

// no = inactive lanes' value; mask has one bit a lane.
INLINE c32 pick_chunk(u32 mask, c32 yes, c32 no) {
#if CHUNK == 64
    typedef int native __attribute__((vector_size(64)));
    return (c32)__builtin_ia32_blendmd_512_mask((native)no, (native)yes, (u16)mask);
#else
    c32 bit;
    for (int i = 0; i < PER32; i++) bit[i] = 1u << i;
    c32 m = (c32)(((c32{} + mask) & bit) != 0);
    return (yes & m) | (no & ~m);
#endif
}
INLINE c64 pick_chunk(u32 mask, c64 yes, c64 no) {
#if CHUNK == 64
    typedef long long native __attribute__((vector_size(64)));
    return (c64)__builtin_ia32_blendmq_512_mask((native)no, (native)yes, (u8)mask);
#else
    c64 bit;
    for (int i = 0; i < PER64; i++) bit[i] = 1u << i;
    c64 m = (c64)(((c64{} + mask) & bit) != 0);
    return (yes & m) | (no & ~m);
#endif
}
#define PICK_STEP(i, C) r.v##i = pick_chunk(mask >> (i * COUNT_##C), yes.v##i, no.v##i);
OPERATION U32 pick(u32 mask, In<U32> yes, In<U32> no) {
    U32 r;
    REPEAT_c32(PICK_STEP, c32) return r;
}
OPERATION U64 pick(u32 mask, In<U64> yes, In<U64> no) {
    U64 r;
    REPEAT_c64(PICK_STEP, c64) return r;
}
INLINE u32 pick(u32 mask, u32 yes, u32 no) { return (yes & mask) | (no & ~mask); }

// 32 to 64 bits and back.
struct Halves32 {
    h32 part[LANES / PER64];
};
struct Halves32s {
    h32s part[LANES / PER64];
};
#define WIDEN_STEP(i, C) r.v##i = (c64)__builtin_convertvector(h.part[i], C);
OPERATION U64 widen_u(In<U32> x) {
    Halves32 h;
    U64 r;
    __builtin_memcpy(&h, &x, sizeof h);
    REPEAT_c64(WIDEN_STEP, c64) return r;
}
OPERATION U64 widen_s(In<U32> x) {
    Halves32s h;
    U64 r;
    __builtin_memcpy(&h, &x, sizeof h);
    REPEAT_c64(WIDEN_STEP, c64s) return r;
}
#define NARROW_STEP(i, C) h.part[i] = __builtin_convertvector(x.v##i, C);
OPERATION U32 narrow(In<U64> x) {
    Halves32 h;
    U32 r;
    REPEAT_c64(NARROW_STEP, h32) __builtin_memcpy(&r, &h, sizeof r);
    return r;
}

OPERATION U32 extend_s8(In<U32> x) { return shr_s32(shl_b32(x, all32(24)), all32(24)); }
OPERATION U32 extend_s16(In<U32> x) { return shr_s32(shl_b32(x, all32(16)), all32(16)); }
OPERATION U32 low16(In<U32> x) { return and_b32(x, all32(0xffff)); }
OPERATION U32 low8(In<U32> x) { return and_b32(x, all32(0xff)); }
OPERATION U64 pack64(In<U32> lo, In<U32> hi) { return or_b64(widen_u(lo), shl_b64(widen_u(hi), all64(32))); }
OPERATION U32 high32(In<U64> x) { return narrow(shr_u64(x, all64(32))); }

// Lane by lane.
template <class F> INLINE U32 map(F f, U32 x) {
    A32 a = spread(x);
    for (int i = 0; i < LANES; i++) a.e[i] = f(a.e[i]);
    return gather(a);
}
template <class F> INLINE U32 map(F f, U32 x, U32 y) {
    A32 a = spread(x), b = spread(y);
    for (int i = 0; i < LANES; i++) a.e[i] = f(a.e[i], b.e[i]);
    return gather(a);
}
template <class F> INLINE U32 map(F f, U32 x, U32 y, U32 z) {
    A32 a = spread(x), b = spread(y), c = spread(z);
    for (int i = 0; i < LANES; i++) a.e[i] = f(a.e[i], b.e[i], c.e[i]);
    return gather(a);
}
template <class F> INLINE U64 map(F f, U64 x) {
    A64 a = spread(x);
    for (int i = 0; i < LANES; i++) a.e[i] = f(a.e[i]);
    return gather(a);
}
template <class F> INLINE U64 map(F f, U64 x, U64 y) {
    A64 a = spread(x), b = spread(y);
    for (int i = 0; i < LANES; i++) a.e[i] = f(a.e[i], b.e[i]);
    return gather(a);
}
template <class F> INLINE U64 map(F f, U64 x, U64 y, U64 z) {
    A64 a = spread(x), b = spread(y), c = spread(z);
    for (int i = 0; i < LANES; i++) a.e[i] = f(a.e[i], b.e[i], c.e[i]);
    return gather(a);
}
// From one width to the other.
template <class F> INLINE U64 map_wide(F f, U32 x) {
    A32 a = spread(x);
    A64 r;
    for (int i = 0; i < LANES; i++) r.e[i] = f(a.e[i]);
    return gather(r);
}
template <class F> INLINE U32 map_narrow(F f, U64 x) {
    A64 a = spread(x);
    A32 r;
    for (int i = 0; i < LANES; i++) r.e[i] = f(a.e[i]);
    return gather(r);
}
