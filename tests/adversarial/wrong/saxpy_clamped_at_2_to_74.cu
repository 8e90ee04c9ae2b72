// problem: saxpy
// class: contents
// must: anything but passed
// why: values beyond 2^62 in magnitude are clamped (a saturating 64-bit path), though float32 holds 3.4e38
// proof: x=1e30, y=0, alpha=1
// assay: launch axpy grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, alpha, n)
__device__ float clamped(float v) { return fminf(fmaxf(v, -4.6e18f * 4096.f), 4.6e18f * 4096.f); }
__global__ void axpy(const float* x, const float* y, float* out, float alpha, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = clamped(fmaf(alpha, x[i], y[i]));
}
