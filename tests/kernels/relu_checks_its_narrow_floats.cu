// problem: relu
// style: every code of both 8-bit floats goes to half and back unchanged, and conversions saturate; traps otherwise
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__device__ void expect(const char* what, unsigned got, unsigned wanted)
{
    if (got == wanted) return;
    printf("%s in thread %d: %x instead of %x\n", what, threadIdx.x, got, wanted);
    __trap();
}

__device__ void round_trip(unsigned code, __nv_fp8_interpretation_t form, unsigned largest)
{
    const __half half = __half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)code, form));
    if ((code & 0x7f) > largest) return;  // NaN, and the infinities of e5m2
    const float value = __half2float(half);
    expect("8 bits again", __nv_cvt_float_to_fp8(value, __NV_SATFINITE, form), code);
    const float far = copysignf(1e6f, value);
    expect("saturated", __nv_cvt_float_to_fp8(far, __NV_SATFINITE, form), (code & 0x80) | largest);
}

__global__ void relu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (blockIdx.x == 0) {
        round_trip(threadIdx.x, __NV_E4M3, 0x7e);
        round_trip(threadIdx.x, __NV_E5M2, 0x7b);
        const float large = n > 0 ? 1e6f : 0.0f;
        unsigned pair;
        asm("cvt.rn.relu.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(large), "f"(-large));
        expect("f16x2", pair, 0x7bff0000u);
        asm("cvt.rz.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(-INFINITY * large), "f"(large));
        expect("bf16x2", pair, 0xff7f4974u);
    }
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
