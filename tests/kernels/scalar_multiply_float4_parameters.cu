// problem: scalar_multiply
// style: the parameters themselves are float4*; the tail goes through a cast
// assay: launch scale4 grid=(ceil_div(n, 512)) block=(128) args=(x, y, alpha, n)

__global__ void scale4(const float4* x, float4* y, float alpha, int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n / 4) {
        const float4 v = x[i];
        y[i] = {alpha * v.x, alpha * v.y, alpha * v.z, alpha * v.w};
    } else if (i == n / 4) {
        const float* rest = reinterpret_cast<const float*>(x + i);
        float* out = reinterpret_cast<float*>(y + i);
        for (int j = 0; j < n % 4; ++j) {
            out[j] = alpha * rest[j];
        }
    }
}
