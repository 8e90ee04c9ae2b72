// problem: relu
// attack: asks the L2 to keep its input and output to the last, for the next launch
// expect: passed
// because: persisting lines are given back and the L2 is flushed before each launch, and contents are new
// rehearse: no
// sizes: n=3000000
// twin: relu_twin
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        float value;
        asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(x + i), "l"(policy));
        value = fmaxf(value, 0.0f);
        asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" :: "l"(y + i), "f"(value), "l"(policy) : "memory");
    }
}
