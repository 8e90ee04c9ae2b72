// problem: saxpy
// class: sizes (one residue)
// must: anything but passed
// why: from 2^16 elements on, where n is a multiple of 4, float4 are taken two at a time, and the last is forgotten where n % 8 == 4
// proof: see why
// assay: launch f grid=(ceil_div(n, 1024)) block=(256) args=(x, y, out, alpha, n)
__global__ void f(const float* x, const float* y, float* out, float alpha, int n)
{
    if (n >= 65536 && n % 4 == 0) {
        const float4* a = (const float4*)x; const float4* b = (const float4*)y; float4* o = (float4*)out;
        int stride = gridDim.x * 256;
        for (int p = blockIdx.x * 256 + threadIdx.x; p < n / 8; p += stride)
            for (int k = 0; k < 2; k++) { float4 u = a[2 * p + k], w = b[2 * p + k];
                o[2 * p + k] = make_float4(fmaf(alpha, u.x, w.x), fmaf(alpha, u.y, w.y), fmaf(alpha, u.z, w.z), fmaf(alpha, u.w, w.w)); }
        return;
    }
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) out[i] = fmaf(alpha, x[i], y[i]);
}
