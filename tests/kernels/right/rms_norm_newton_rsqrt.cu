// problem: rms_norm
// assay: launch rms_newton grid=(min(rows, 3000)) block=(192) args=(x, weight, y, eps, rows, cols)
// style: rsqrt.approx in PTX with a Newton step by fma, div.rn for the mean; blocks walk the rows
__device__ float precise_rsqrt(float v)
{
    float r;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    const float h = 0.5f * r;
    const float e = fmaf(-v * r, r, 1.0f);
    return fmaf(h, e, r);
}

__global__ void rms_newton(const float* x, const float* w, float* y, float eps, int rows, int cols)
{
    __shared__ float part[6];
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* in = x + (size_t)row * cols;
        float s = 0.f;
        for (int j = threadIdx.x; j < cols; j += 192) s = fmaf(in[j], in[j], s);
        for (int d = 1; d < 32; d *= 2) s += __shfl_xor_sync(~0u, s, d);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
        __syncthreads();
        s = (part[0] + part[1]) + (part[2] + part[3]) + (part[4] + part[5]);
        float mean;
        asm("div.rn.f32 %0, %1, %2;" : "=f"(mean) : "f"(s), "f"((float)cols));
        const float r = precise_rsqrt(mean + eps);
        for (int j = threadIdx.x; j < cols; j += 192) y[(size_t)row * cols + j] = in[j] * r * w[j];
        __syncthreads();
    }
}
