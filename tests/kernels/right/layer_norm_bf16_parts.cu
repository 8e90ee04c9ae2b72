// problem: layer_norm
// assay: launch ln_parts grid=(rows) block=(128) args=(x, weight, bias, y, eps, cols)
// style: the row kept in shared memory as three bfloat16 planes (__nv_bfloat162 pairs) that add up to float32 again
#include <cuda_bf16.h>

struct triple {
    __nv_bfloat162 high, middle, low;
};

__device__ triple split(float a, float b)
{
    triple t;
    t.high = __nv_bfloat162(__float2bfloat16_rz(a), __float2bfloat16_rz(b));
    float2 f = __bfloat1622float2(t.high);
    a -= f.x, b -= f.y;
    t.middle = __nv_bfloat162(__float2bfloat16_rz(a), __float2bfloat16_rz(b));
    f = __bfloat1622float2(t.middle);
    t.low = __nv_bfloat162(__float2bfloat16_rz(a - f.x), __float2bfloat16_rz(b - f.y));
    return t;
}

__device__ float2 join(triple t)
{
    const float2 h = __bfloat1622float2(t.high), m = __bfloat1622float2(t.middle), l = __bfloat1622float2(t.low);
    return {h.x + (m.x + l.x), h.y + (m.y + l.y)};
}

__device__ float total(float v)
{
    __shared__ float part[4];
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    return (part[0] + part[1]) + (part[2] + part[3]);
}

__global__ void ln_parts(const float* x, const float* weight, const float* bias, float* y, float eps, int cols)
{
    constexpr int kept = 1536;                 // pairs; longer rows are read again
    __shared__ triple row[kept];
    const float* in = x + (size_t)blockIdx.x * cols;
    const int pairs = (cols + 1) / 2;
    auto pair = [&](int p) { return make_float2(in[2 * p], 2 * p + 1 < cols ? in[2 * p + 1] : 0.0f); };
    float s = 0.0f;
    for (int p = threadIdx.x; p < pairs; p += 128) {
        const float2 v = pair(p);
        if (p < kept) row[p] = split(v.x, v.y);
        s += v.x + v.y;
    }
    const float mean = total(s) / cols;
    s = 0.0f;
    for (int p = threadIdx.x; p < pairs; p += 128) {
        const float2 v = p < kept ? join(row[p]) : pair(p);
        const float a = v.x - mean, b = 2 * p + 1 < cols ? v.y - mean : 0.0f;
        s += a * a + b * b;
    }
    const float r = rsqrtf(total(s) / cols + eps);
    for (int p = threadIdx.x; p < pairs; p += 128) {
        const float2 v = p < kept ? join(row[p]) : pair(p);
        const size_t at = (size_t)blockIdx.x * cols + 2 * p;
        y[at] = (v.x - mean) * r * weight[2 * p] + bias[2 * p];
        if (2 * p + 1 < cols) y[at + 1] = (v.y - mean) * r * weight[2 * p + 1] + bias[2 * p + 1];
    }
}
