// problem: relu
// style: checks what SIMD intrinsics, video instructions and forms of prmt, lop3, szext and mul24 give; traps otherwise
// Only operands for which the ISA and what ptxas makes of it for sm_90 agree (it emulates the scalar video instructions).
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cstdio>

__device__ void expect(const char* what, unsigned got, unsigned wanted)
{
    if (got == wanted) return;
    printf("%s: %x instead of %x\n", what, got, wanted);
    __trap();
}

#define WORD(text, ...)                                                        \
    [&](unsigned a, unsigned b, unsigned c) {                                  \
        unsigned d;                                                            \
        asm(text : "=r"(d) : "r"(a), "r"(b), "r"(c));                          \
        return d;                                                              \
    }(__VA_ARGS__)

__global__ void relu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i == 0) {
        const unsigned z = n >> 31;  // 0, but the compiler does not know
        expect("vadd4", __vadd4(0x01ff7f80u ^ z, 0x01010101u), 0x02008081u);
        expect("vsub4", __vsub4(0x00ff7f80u ^ z, 0x01010101u), 0xfffe7e7fu);
        expect("vmaxs4", __vmaxs4(0x80ff7f01u ^ z, 0u), 0x00007f01u);
        expect("vmaxu4", __vmaxu4(0x80ff7f01u ^ z, 0x81000000u), 0x81ff7f01u);
        expect("vminu2", __vminu2(0x80007f01u ^ z, 0x81000000u), 0x80000000u);
        expect("vabsdiffu4", __vabsdiffu4(0x0105ff00u ^ z, 0x05010001u), 0x0404ff01u);
        expect("vaddss2", __vaddss2(0x7fff8000u ^ z, 0x0001ffffu), 0x7fff8000u);
        expect("vaddus4", __vaddus4(0xff01807fu ^ z, 0x01010180u), 0xff0281ffu);
        expect("vavgu4", __vavgu4(0x01020304u ^ z, 0x03040506u), 0x02030405u);
        expect("vcmpgts2", __vcmpgts2(0x00018000u ^ z, 0u), 0xffff0000u);
        expect("vsads4", __vsads4(0x01020304u ^ z, 0x02030405u), 4u);
        expect("vsadu2", __vsadu2(0x00010002u ^ z, 0x00030005u), 5u);
        expect("vhaddu4", __vhaddu4(0x01020304u ^ z, 0x03040506u), 0x02030405u);
        expect("vseteq4", __vseteq4(0x01020304u ^ z, 0x01000304u), 0x01000101u);
        expect("vneg2", __vneg2(0x80000001u ^ z), 0x8000ffffu);
        expect("vabsss4", __vabsss4(0x80ff7f01u ^ z), 0x7f017f01u);
        expect("vadd2.sat", WORD("vadd2.s32.s32.u32.sat %0, %1, %2, %3;", 0x7fff8000u ^ z, 0x00010001u, 0u), 0x7fff8001u);
        expect("vavrg4", WORD("vavrg4.u32.u32.u32 %0.b20, %1, %2, %3;", 0x01020304u ^ z, 0x03040506u, ~0u), 0xff03ff05u);
        expect("vmin4", WORD("vmin4.s32.s32.s32 %0, %1.b0123, %2.b7654, %3;", 0x01fe03fcu ^ z, 0u, 0u), 0xfc00fe00u);
        expect("vsub", WORD("vsub.s32.u32.u32.sat %0.b2, %1.b1, %2.h0, %3;", 0x0500u ^ z, 0x0003u, 0x11223344u), 0x11023344u);
        expect("vmad", WORD("vmad.s32.s32.u32.shr7 %0, %1.h1, %2.b0, -%3;", 0xfffe0000u ^ z, 0x80u, 0x100u), -4u);
        expect("vshr", WORD("vshr.u32.s32.u32.wrap.max %0, %1, %2, %3;", 0x40000000u ^ z, 33u, 7u), 0x20000000u);
        expect("prmt.b4e", WORD("prmt.b32.b4e %0, %1, %2, %3;", 0x33221100u ^ z, 0x77665544u, 2u), 0x77001122u);
        expect("prmt.ecl", WORD("prmt.b32.ecl %0, %1, %2, %3;", 0x33221100u ^ z, 0x77665544u, 5u), 0x33221111u);
        expect("szext", WORD("szext.wrap.s32 %0, %1, %2; // %3", 0x00000f80u ^ z, 8u, 0u), 0xffffff80u);
        expect("mul24.hi", WORD("mul24.hi.s32 %0, %1, %2; // %3", 0x00ffffffu ^ z, 0x00400000u, 0u), 0xffffffc0u);
        expect("mad24.hi.sat", WORD("mad24.hi.sat.s32 %0, %1, %2, %3;", 0x007fffffu ^ z, 0x007fffffu, 0x7ffffff0u), 0x7fffffffu);
        expect("sub.sat", WORD("sub.sat.s32 %0, %1, %2; // %3", 0x80000000u ^ z, 1u, 0u), 0x80000000u);
        expect("cvt.pack", WORD("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;", 300u ^ z, -300, 0x1234u), 0x12347f80u);
        expect("lop3.or", WORD("{ .reg .pred p, q; setp.ne.u32 q, %3, 0; lop3.or.b32 %0|p, %1, %2, %3, 0x80, q;"
                               "@p add.u32 %0, %0, 1; }", 0xf0u ^ z, 0x0fu, 1u), 1u);
        expect("set.and", WORD("{ .reg .pred q; setp.eq.u32 q, %3, 3; set.lt.and.u32.s32 %0, %1, %2, q; }", -1 ^ z, 0u, 3u), ~0u);
    }
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
