// problem: vector_add
// assay: launch vadd_v4 grid=(ceil_div(ceil_div(n, 4), 128)) block=(128) args=(a, b, c, n)
// style: mad.wide for the address, ld.global.nc.v4 and st.global.cs.v4 in inline PTX, the tail by predicated scalar loads
__device__ __forceinline__ unsigned long long address(const void* base, unsigned i, unsigned size)
{
    unsigned long long to;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(to) : "r"(i), "r"(size), "l"(base));
    return to;
}

__global__ void vadd_v4(const float* a, const float* b, float* c, unsigned n)
{
    const unsigned quad = blockIdx.x * blockDim.x + threadIdx.x;
    if (quad < n / 4) {
        float4 l, r;
        asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];"
                     : "=f"(l.x), "=f"(l.y), "=f"(l.z), "=f"(l.w) : "l"(address(a, quad, 16)));
        asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];"
                     : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w) : "l"(address(b, quad, 16)));
        asm volatile("st.global.cs.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(address(c, quad, 16)), "f"(l.x + r.x),
                     "f"(l.y + r.y), "f"(l.z + r.z), "f"(l.w + r.w) : "memory");
    } else {
        for (unsigned i = quad * 4; i < quad * 4 + 4; ++i) {
            float l, r;
            asm volatile("{ .reg .pred p; setp.lt.u32 p, %2, %3; mov.f32 %0, 0f00000000; mov.f32 %1, 0f00000000;\n\t"
                         "@p ld.global.f32 %0, [%4]; @p ld.global.f32 %1, [%5]; }"
                         : "=&f"(l), "=&f"(r) : "r"(i), "r"(n), "l"(address(a, i, 4)), "l"(address(b, i, 4)));
            if (i < n) c[i] = l + r;
        }
    }
}
