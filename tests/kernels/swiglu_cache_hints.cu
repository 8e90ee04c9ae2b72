// problem: swiglu
// style: inline PTX with cache hints and an L2 policy around loads and stores of four
// assay: launch swiglu grid=(ceil_div(rows * cols, 1024)) block=(256) args=(gate, up, y, rows, cols)

__device__ float load(const float* p, unsigned long long policy)
{
    float value;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.f32 %0, [%1], %2;"
                 : "=f"(value)
                 : "l"(p), "l"(policy));
    return value;
}

__global__ void swiglu(const float* gate, const float* up, float* y, int rows, int cols)
{
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    const int n = rows * cols, start = blockIdx.x * 1024 + threadIdx.x;
    for (int i = start; i < min(n, (int)(blockIdx.x + 1) * 1024); i += 256) {
        float g = load(gate + i, policy), u = load(up + i, policy);
        float value = g / (1.0f + expf(-g)) * u;
        asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(y + i), "f"(value) : "memory");
    }
}
