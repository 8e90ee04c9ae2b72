// problem: saxpy
// class: precision
// must: anything but passed
// why: alpha is kept as two bfloat16 parts (16 bits): alpha = 0.1f is off by 2^-18 of it
// proof: assay grade, an alpha of 24 bits is drawn
// assay: launch axpy grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, alpha, n)
#include <cuda_bf16.h>
__global__ void axpy(const float* x, const float* y, float* out, float alpha, int n)
{
    __nv_bfloat16 hi = __float2bfloat16(alpha);
    __nv_bfloat16 lo = __float2bfloat16(alpha - __bfloat162float(hi));
    float a = __bfloat162float(hi) + __bfloat162float(lo);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaf(a, x[i], y[i]);
}
