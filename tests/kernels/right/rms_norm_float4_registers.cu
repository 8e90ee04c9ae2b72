// problem: rms_norm
// assay: launch rms_vec grid=(rows) block=(256) args=(x, weight, y, eps, cols)
// style: where cols is a multiple of four, up to two float4 a thread stay in registers; everything else takes a scalar path
__device__ float sum_of_block(float v)
{
    __shared__ float s[8];
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    float all = 0.0f;
#pragma unroll
    for (int w = 0; w < 8; ++w) all += s[w];
    return all;
}

__device__ __forceinline__ float dot(float4 a) { return (a.x * a.x + a.y * a.y) + (a.z * a.z + a.w * a.w); }

__global__ void rms_vec(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, float eps, int cols)
{
    const size_t start = (size_t)blockIdx.x * cols;
    if (cols % 4 == 0 && cols <= 2048) {
        const float4* in = reinterpret_cast<const float4*>(x + start);
        float4* out = reinterpret_cast<float4*>(y + start);
        const float4* w = reinterpret_cast<const float4*>(weight);
        const int quads = cols / 4;
        float4 v[2] = {};
        for (int k = 0; k < 2; ++k)
            if (threadIdx.x + 256 * k < quads) v[k] = in[threadIdx.x + 256 * k];
        const float r = rsqrtf(sum_of_block(dot(v[0]) + dot(v[1])) / cols + eps);
        for (int k = 0; k < 2; ++k) {
            const int i = threadIdx.x + 256 * k;
            if (i < quads) out[i] = make_float4(v[k].x * r * w[i].x, v[k].y * r * w[i].y, v[k].z * r * w[i].z, v[k].w * r * w[i].w);
        }
    } else {
        float s = 0.0f;
        for (int j = threadIdx.x; j < cols; j += 256) s += x[start + j] * x[start + j];
        const float r = rsqrtf(sum_of_block(s) / cols + eps);
        for (int j = threadIdx.x; j < cols; j += 256) y[start + j] = x[start + j] * r * weight[j];
    }
}
