// problem: vector_add
// assay: launch add_b64 grid=(ceil_div(n, 4 * 128)) block=(128) args=(a, b, c, n)
// style: ld.global.v2.b64 and mov.b64 {lo, hi} take floats apart; __grid_constant__ parameters, __builtin_expect
__device__ unsigned long long sum_pair(unsigned long long u, unsigned long long v)
{
    float a, b, c, d;
    asm("mov.b64 {%0, %1}, %2;" : "=f"(a), "=f"(b) : "l"(u));
    asm("mov.b64 {%0, %1}, %2;" : "=f"(c), "=f"(d) : "l"(v));
    unsigned long long out;
    asm("mov.b64 %0, {%1, %2};" : "=l"(out) : "f"(a + c), "f"(b + d));
    return out;
}

__global__ void add_b64(const __grid_constant__ float* const a, const float* const b, float* const c, const __grid_constant__ int n)
{
    const int i = (blockIdx.x * 128 + threadIdx.x) * 4;
    if (__builtin_expect(i + 4 <= n, 1)) {
        unsigned long long u, v, s, t;
        asm volatile("ld.global.v2.b64 {%0, %1}, [%2];" : "=l"(u), "=l"(v) : "l"(a + i));
        asm volatile("ld.global.v2.b64 {%0, %1}, [%2];" : "=l"(s), "=l"(t) : "l"(b + i));
        asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(c + i), "l"(sum_pair(u, s)), "l"(sum_pair(v, t)) : "memory");
    } else {
        for (int j = i; j < n; ++j) c[j] = a[j] + b[j];
    }
}
