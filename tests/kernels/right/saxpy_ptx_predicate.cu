// problem: saxpy
// assay: launch saxpy_asm grid=(ceil_div(n, 64)) block=(64) args=(x, y, out, alpha, n)
// style: the whole body is one asm statement: special registers, setp, a guarded branch to a label, fma.rn
extern "C" __global__ void saxpy_asm(const float* x, const float* y, float* out, float alpha, int n)
{
    asm volatile(
        "{\n\t"
        ".reg .pred beyond;\n\t"
        ".reg .b32 tid, bid, dim, i;\n\t"
        ".reg .b64 px, py, po, off;\n\t"
        ".reg .f32 vx, vy;\n\t"
        "mov.u32 tid, %%tid.x;\n\t"
        "mov.u32 bid, %%ctaid.x;\n\t"
        "mov.u32 dim, %%ntid.x;\n\t"
        "mad.lo.s32 i, bid, dim, tid;\n\t"
        "setp.ge.s32 beyond, i, %4;\n\t"
        "@beyond bra DONE_%=;\n\t"
        "mul.wide.s32 off, i, 4;\n\t"
        "add.s64 px, %0, off;\n\t"
        "add.s64 py, %1, off;\n\t"
        "add.s64 po, %2, off;\n\t"
        "ld.global.f32 vx, [px];\n\t"
        "ld.global.f32 vy, [py];\n\t"
        "fma.rn.f32 vy, %3, vx, vy;\n\t"
        "st.global.f32 [po], vy;\n\t"
        "DONE_%=:\n\t"
        "}"
        ::"l"(x), "l"(y), "l"(out), "f"(alpha), "r"(n) : "memory");
}
