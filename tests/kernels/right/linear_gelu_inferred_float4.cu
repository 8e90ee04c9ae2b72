// problem: linear_gelu
// style: the plan is inferred; a thread an output, float4 dot products where k is a multiple of four, four accumulators
__global__ void fused_linear_gelu(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    const int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= m * n) return;
    const int i = id / n, j = id - i * n;
    const float* u = x + (size_t)i * k;
    const float* v = weight + (size_t)j * k;
    float a = 0.f, b = 0.f, c = 0.f, d = 0.f;
    if ((k & 3) == 0) {
        for (int q = 0; q < k / 4; ++q) {
            const float4 p = ((const float4*)u)[q], r = ((const float4*)v)[q];
            a = fmaf(p.x, r.x, a), b = fmaf(p.y, r.y, b), c = fmaf(p.z, r.z, c), d = fmaf(p.w, r.w, d);
        }
    } else {
        for (int l = 0; l < k; ++l) a = fmaf(u[l], v[l], a);
    }
    const float z = (a + b) + (c + d) + bias[j];
    y[id] = 0.5f * z * (1.f + erff(z * 0.70710678118f));
}
