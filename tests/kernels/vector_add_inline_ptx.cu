// problem: vector_add
// style: addresses, loads, the sum and the store in inline PTX
// assay: launch add_ptx grid=(ceil_div(n, 128)) block=(128) args=(a, b, c, n)

__global__ void add_ptx(const float* a, const float* b, float* c, int n)
{
    unsigned i;
    asm("{\n\t.reg .u32 t, d, b;\n\tmov.u32 t, %%tid.x;\n\tmov.u32 d, %%ntid.x;\n\tmov.u32 b, %%ctaid.x;\n\t"
        "mad.lo.u32 %0, b, d, t;\n\t}"
        : "=r"(i));
    if (i >= (unsigned)n) {
        return;
    }
    unsigned long long offset;
    asm("mul.wide.u32 %0, %1, 4;" : "=l"(offset) : "r"(i));
    const unsigned long long left_at = (unsigned long long)__cvta_generic_to_global(a) + offset;
    const unsigned long long right_at = (unsigned long long)__cvta_generic_to_global(b) + offset;
    const unsigned long long sum_at = (unsigned long long)__cvta_generic_to_global(c) + offset;
    float left, right, sum;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(left) : "l"(left_at));
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(right) : "l"(right_at));
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(left), "f"(right));
    asm volatile("st.global.f32 [%0], %1;" ::"l"(sum_at), "f"(sum) : "memory");
}
