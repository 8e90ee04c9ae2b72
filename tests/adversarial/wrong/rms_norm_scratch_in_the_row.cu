// problem: rms_norm
// class: shared
// must: anything but passed
// why: the row and the warps' sums share dynamic memory; the place of the sums is cols rounded down to 1,024 above 8,192 columns, so they overwrite elements of the row (published rows end at 5,000)
// proof: assay grade --size rows=2 --size cols=9000 refuses it
// assay: launch rms grid=(rows) block=(256) shared=(4 * cols + 32) args=(x, weight, y, eps, cols)

extern __shared__ float smem[];

__global__ void rms(const float* x, const float* weight, float* y, float eps, int cols)
{
    float* row = smem;
    float* sums = smem + (cols > 8192 ? cols & ~1023 : cols);
    const float* in = x + (size_t)blockIdx.x * cols;
    float s = 0.f;
    for (int c = threadIdx.x; c < cols; c += 256) {
        row[c] = in[c];
        s += row[c] * row[c];
    }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0.f;
    for (int w = 0; w < 8; ++w) s += sums[w];
    const float r = rsqrtf(s / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 256) y[(size_t)blockIdx.x * cols + c] = row[c] * r * weight[c];
}
