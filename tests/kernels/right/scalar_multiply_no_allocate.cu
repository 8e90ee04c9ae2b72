// problem: scalar_multiply
// assay: launch scale_stream grid=(ceil_div(n, 1024)) block=(256) args=(x, y, alpha, n)
// style: streaming PTX: ld.global.L1::no_allocate.v4, prefetch.global.L2 of the next tile, st.global.wt
__global__ void scale_stream(const float* x, float* y, float alpha, int n)
{
    const int i = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (i + 1024 + 4 <= n) asm volatile("prefetch.global.L2 [%0];" ::"l"(x + i + 1024));
    if (i + 4 <= n) {
        float a, b, c, d;
        asm volatile("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + i));
        asm volatile("st.global.wt.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(y + i), "f"(a * alpha), "f"(b * alpha),
                     "f"(c * alpha), "f"(d * alpha) : "memory");
        return;
    }
    for (int j = i; j < n && j < i + 4; ++j) {
        asm volatile("st.global.wt.f32 [%0], %1;" ::"l"(y + j), "f"(__ldcg(x + j) * alpha) : "memory");
    }
}
