// problem: reduce_sum
// assay: temp state float32 (97)
// assay: fill state value=0
// assay: launch scoped_sum grid=(96) block=(128) args=(x, state, total, n)
// style: PTX scopes: st.relaxed of a partial sum, atom.acq_rel.gpu.inc on a counter; the block that sees 95 reads with ld.relaxed
__global__ void scoped_sum(const float* x, float* state, float* total, int n)
{
    __shared__ float part[4];
    __shared__ unsigned seen;
    float s = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        s = part[0] + part[1] + part[2] + part[3];
        asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(state + 1 + blockIdx.x), "f"(s) : "memory");
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(seen) : "l"(state), "r"(95u) : "memory");
    }
    __syncthreads();
    if (seen == 95 && threadIdx.x < 32) {
        s = 0.0f;
        for (int b = threadIdx.x; b < 96; b += 32) {
            float v;
            asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(state + 1 + b) : "memory");
            s += v;
        }
        for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
        if (threadIdx.x == 0) *total = s;
    }
}
