// problem: gelu
// style: fmaf(h, erff(x / sqrt(2)), h) with h = x / 2 and a true division by the root; a grid of 512 blocks strides
// assay: launch gelu_fma grid=(min(ceil_div(n, 256), 512)) block=(256) args=(x, y, n)
__global__ void gelu_fma(const float* x, float* y, int n)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        const float h = 0.5f * x[i];
        y[i] = fmaf(h, erff(__fdiv_rn(x[i], 1.41421356f)), h);
    }
}
