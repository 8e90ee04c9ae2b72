// problem: saxpy
// assay: launch saxpy_quads grid=(ceil_div(n, 4 * 256)) block=(256) args=(n, alpha, x, y, out)
// style: float4 through a union that is also an array; thread 0 of block 0 takes the last one to three elements
union quad {
    float4 vector;
    float at[4];
};

__global__ void saxpy_quads(int n, float alpha, const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n / 4) {
        quad u, v;
        u.vector = reinterpret_cast<const float4*>(x)[t];
        v.vector = reinterpret_cast<const float4*>(y)[t];
        for (int i = 0; i < 4; ++i) v.at[i] += alpha * u.at[i];
        reinterpret_cast<float4*>(out)[t] = v.vector;
    }
    if (t == 0) {
        for (int i = n & ~3; i < n; ++i) out[i] = alpha * x[i] + y[i];
    }
}
