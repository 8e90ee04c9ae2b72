// problem: vector_add
// style: float4 loads through the read-only cache, scalar tail in the last thread's neighbours
// assay: launch add_vectors grid=(ceil_div(n, 1024)) block=(256) args=(a, b, c, n)

__global__ void add_vectors(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n)
{
    const int quad = blockIdx.x * blockDim.x + threadIdx.x;
    const int start = quad * 4;
    if (start + 3 < n) {
        const float4 left = __ldg(reinterpret_cast<const float4*>(a) + quad);
        const float4 right = __ldg(reinterpret_cast<const float4*>(b) + quad);
        reinterpret_cast<float4*>(c)[quad] =
            make_float4(left.x + right.x, left.y + right.y, left.z + right.z, left.w + right.w);
    } else {
        for (int i = start; i < n; ++i) {
            c[i] = __ldg(a + i) + __ldg(b + i);
        }
    }
}
