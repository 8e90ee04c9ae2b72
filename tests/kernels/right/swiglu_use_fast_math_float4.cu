// problem: swiglu
// style: --use_fast_math with plain expf and division, float4 over the whole tensor and a scalar tail
// flags: --use_fast_math
// assay: launch silu4 grid=(ceil_div(rows * cols, 1024)) block=(256) args=(gate, up, y, rows * cols)
__device__ float silu_mul(float g, float u) { return g / (1.0f + expf(-g)) * u; }

__global__ void silu4(const float* gate, const float* up, float* y, int count)
{
    const int i = 4 * (blockIdx.x * 256 + threadIdx.x);
    if (i + 3 < count) {
        const float4 g = *(const float4*)(gate + i), u = *(const float4*)(up + i);
        *(float4*)(y + i) =
            make_float4(silu_mul(g.x, u.x), silu_mul(g.y, u.y), silu_mul(g.z, u.z), silu_mul(g.w, u.w));
    } else {
        for (int k = i; k < count; ++k) y[k] = silu_mul(gate[k], up[k]);
    }
}
