// expected: passed
// Four elements a thread, at the published shape alone.
// assay: launch scaled_add grid=(512) block=(256) args=(x, y, out)

extern "C" __global__ void scaled_add(const float4* x, const float4* y, float4* out)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float4 a = x[i], b = y[i];
    out[i] = make_float4(1.5f * a.x + b.x, 1.5f * a.y + b.y, 1.5f * a.z + b.z, 1.5f * a.w + b.w);
}
