// problem: gelu
// flags: --use_fast_math
// assay: launch gelu_fast grid=(ceil_div(n, 1024)) block=(256) args=(x, y, n)
// style: --use_fast_math with erff, which it leaves exact enough; float4 with operators of its own
__device__ inline float4 operator*(float4 a, float4 b) { return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
__device__ inline float4 operator*(float s, float4 a) { return make_float4(s * a.x, s * a.y, s * a.z, s * a.w); }
__device__ inline float4 operator+(float s, float4 a) { return make_float4(s + a.x, s + a.y, s + a.z, s + a.w); }
__device__ inline float4 erf4(float4 a) { return make_float4(erff(a.x), erff(a.y), erff(a.z), erff(a.w)); }

__global__ void gelu_fast(const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        const float4 v = *(const float4*)(x + i);
        *(float4*)(y + i) = 0.5f * v * (1.0f + erf4(0.70710678f * v));
    } else {
        for (int j = i; j < n; j++) y[j] = 0.5f * x[j] * (1.0f + erff(0.70710678f * x[j]));
    }
}
