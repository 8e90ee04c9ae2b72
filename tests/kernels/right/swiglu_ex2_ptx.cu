// problem: swiglu
// assay: launch swiglu_ex2 grid=(min(ceil_div(rows * cols, 256), 1320)) block=(256) args=(gate, up, y, rows * cols)
// style: ex2.approx and rcp.approx in PTX on -|gate|, so that nothing overflows; the sign chooses the numerator
__global__ void swiglu_ex2(const float* __restrict__ g, const float* __restrict__ u, float* __restrict__ y, int total)
{
    const int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        float e, r;
        const float v = __ldg(g + i);
        asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(fabsf(v) * -1.4426950408889634f));
        asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
        __stcs(y + i, v * (v < 0.0f ? e * r : r) * __ldg(u + i));
    }
}
