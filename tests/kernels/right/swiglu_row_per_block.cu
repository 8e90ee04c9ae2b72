// problem: swiglu
// assay: launch act_and_mul grid=(rows) block=(min(cols, 1024)) args=(y, gate, up, cols)
// style: an inference server's act_and_mul: a token a block, the activation a template argument, blocks as wide as the row
__device__ __forceinline__ float silu(const float& v) { return v / (1.0f + expf(-v)); }

template <float (*ACT)(const float&)>
__global__ void act_and_mul(float* __restrict__ out, const float* __restrict__ gate, const float* __restrict__ up, const int d)
{
    const int64_t token = blockIdx.x;
    for (int64_t idx = threadIdx.x; idx < d; idx += blockDim.x) {
        const float g = __ldg(&gate[token * d + idx]);
        const float u = __ldg(&up[token * d + idx]);
        out[token * d + idx] = ACT(g) * u;
    }
}
template __global__ void act_and_mul<&silu>(float* __restrict__, const float* __restrict__, const float* __restrict__, const int);
