// problem: swiglu
// style: float4 with a scalar tail, a 2-D grid walked as one
// assay: launch swiglu4 grid=(ceil_div(rows * cols, 4096), 4) block=(64, 4) args=(gate, up, y, rows * cols)

__device__ __forceinline__ float silu_times(float g, float u)
{
    return g * u / (1.0f + expf(-g));
}

__global__ void swiglu4(const float* __restrict__ gate, const float* __restrict__ up, float* __restrict__ y, size_t count)
{
    const size_t block = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
    const size_t i = (block * 256 + threadIdx.y * 64 + threadIdx.x) * 4;
    if (i + 3 < count) {
        const float4 g = *(const float4*)(gate + i);
        const float4 u = *(const float4*)(up + i);
        *(float4*)(y + i) = make_float4(silu_times(g.x, u.x), silu_times(g.y, u.y), silu_times(g.z, u.z),
                                        silu_times(g.w, u.w));
    } else {
        for (size_t j = i; j < count; ++j) {
            y[j] = silu_times(gate[j], up[j]);
        }
    }
}
