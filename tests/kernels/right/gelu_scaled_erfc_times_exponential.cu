// problem: gelu
// style: erfcxf on the magnitude times __expf(-x * x / 2), the positive side as x minus its mirror image; two elements a thread
// assay: launch gelu_erfcx grid=(ceil_div(n, 512)) block=(256) args=(x, y, n)
__device__ float one(float v)
{
    const float a = fminf(fabsf(v), 14.0f);
    const float tail = 0.5f * a * erfcxf(a * 0.707106781f) * __expf(-0.5f * a * a);
    return v > 0.0f ? v - tail : -tail;
}

__global__ void gelu_erfcx(const float* x, float* y, int n)
{
    const int i = 2 * (blockIdx.x * 256 + threadIdx.x);
    if (i + 1 < n) {
        const float2 v = *reinterpret_cast<const float2*>(x + i);
        *reinterpret_cast<float2*>(y + i) = make_float2(one(v.x), one(v.y));
    } else if (i < n) {
        y[i] = one(x[i]);
    }
}
