// The 16-bit element types. Arithmetic is by float, as PyTorch's is; only where a source names them.
#pragma once

#include "assay_scalars.h"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace c10 {

#ifdef __CUDACC__
#define ASSAY_NARROW(Name, native, to_float, from_float)                                                          \
    struct alignas(2) Name {                                                                                      \
        unsigned short x;                                                                                         \
        struct from_bits_t {};                                                                                    \
        Name() = default;                                                                                         \
        C10_HOST_DEVICE constexpr Name(unsigned short bits, from_bits_t) : x(bits) {}                             \
        C10_HOST_DEVICE Name(float value) {                                                                       \
            native made = from_float(value);                                                                      \
            __builtin_memcpy(&x, &made, 2);                                                                       \
        }                                                                                                         \
        C10_HOST_DEVICE Name(const native &value) { __builtin_memcpy(&x, &value, 2); }                            \
        C10_HOST_DEVICE operator float() const {                                                                  \
            native held;                                                                                          \
            __builtin_memcpy(&held, &x, 2);                                                                       \
            return to_float(held);                                                                                \
        }                                                                                                         \
        C10_HOST_DEVICE operator native() const {                                                                 \
            native held;                                                                                          \
            __builtin_memcpy(&held, &x, 2);                                                                       \
            return held;                                                                                          \
        }                                                                                                         \
    };
ASSAY_NARROW(Half, __half, __half2float, __float2half)
ASSAY_NARROW(BFloat16, __nv_bfloat16, __bfloat162float, __float2bfloat16)
#undef ASSAY_NARROW

#define ASSAY_OPERATOR(Name, sign)                                                                                \
    C10_HOST_DEVICE inline Name operator sign(const Name &a, const Name &b) { return (float)a sign(float) b; }    \
    C10_HOST_DEVICE inline Name &operator sign##=(Name &a, const Name &b) { return a = (float)a sign(float) b; }  \
    C10_HOST_DEVICE inline float operator sign(const Name &a, float b) { return (float)a sign b; }                \
    C10_HOST_DEVICE inline float operator sign(float a, const Name &b) { return a sign(float) b; }                \
    C10_HOST_DEVICE inline double operator sign(const Name &a, double b) { return (float)a sign b; }              \
    C10_HOST_DEVICE inline double operator sign(double a, const Name &b) { return a sign(float) b; }              \
    C10_HOST_DEVICE inline Name operator sign(const Name &a, int b) { return (float)a sign(float) b; }            \
    C10_HOST_DEVICE inline Name operator sign(int a, const Name &b) { return (float)a sign(float) b; }            \
    C10_HOST_DEVICE inline Name operator sign(const Name &a, int64_t b) { return (float)a sign(float) b; }        \
    C10_HOST_DEVICE inline Name operator sign(int64_t a, const Name &b) { return (float)a sign(float) b; }        \
    C10_HOST_DEVICE inline float &operator sign##=(float &a, const Name &b) { return a = a sign(float) b; }
#define ASSAY_COMPARISON(Name, sign)                                                                              \
    C10_HOST_DEVICE inline bool operator sign(const Name &a, const Name &b) { return (float)a sign(float) b; }
#define ASSAY_ARITHMETIC(Name)                                                                                    \
    ASSAY_OPERATOR(Name, +)                                                                                       \
    ASSAY_OPERATOR(Name, -)                                                                                       \
    ASSAY_OPERATOR(Name, *)                                                                                       \
    ASSAY_OPERATOR(Name, /)                                                                                       \
    ASSAY_COMPARISON(Name, <)                                                                                     \
    ASSAY_COMPARISON(Name, >)                                                                                     \
    C10_HOST_DEVICE inline Name operator-(const Name &a) { return -(float)a; }
ASSAY_ARITHMETIC(Half)
ASSAY_ARITHMETIC(BFloat16)
#undef ASSAY_ARITHMETIC
#undef ASSAY_COMPARISON
#undef ASSAY_OPERATOR
#endif

} // namespace c10

namespace at {
using c10::BFloat16;
using c10::Half;
} // namespace at
namespace torch {
using c10::BFloat16;
using c10::Half;
} // namespace torch
