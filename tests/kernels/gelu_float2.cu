// problem: gelu
// style: float2 loads; the odd element is left to one thread
// assay: launch gelu_pairs grid=(ceil_div(n, 512)) block=(256) args=(x, y, n)

__device__ __forceinline__ float gelu_of(float v)
{
    return v * normcdff(v);
}

__global__ void gelu_pairs(const float* x, float* y, int n)
{
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (2 * pair + 1 < n) {
        const float2 in = reinterpret_cast<const float2*>(x)[pair];
        reinterpret_cast<float2*>(y)[pair] = make_float2(gelu_of(in.x), gelu_of(in.y));
    } else if (2 * pair < n) {
        y[2 * pair] = gelu_of(x[2 * pair]);
    }
}
