// problem: matvec
// class: warp
// must: passed with a warning | anything but passed
// why: even and odd half-warps shuffle in two branches, each with the full mask: all lanes named by a mask must execute the same intrinsic (CUDA guide, warp shuffle functions)
// proof: CUDA guide: "all non-exited threads named in mask must execute the same intrinsic with the same mask, or the result is undefined"
// assay: launch mv grid=(ceil_div(m, 16)) block=(256) args=(a, x, y, m, k)

__global__ void mv(const float* a, const float* x, float* y, int m, int k)
{
    const int lane = threadIdx.x & 31, half = lane >> 4, l = lane & 15;
    const int row = (blockIdx.x * 8 + (threadIdx.x >> 5)) * 2 + half;
    const float* r = a + (size_t)min(row, m - 1) * k;
    float s = 0.f;
    if (half == 0) {
        for (int j = l; j < k; j += 16) s += r[j] * x[j];
        for (int o = 8; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o, 16);
    } else {
        // descending, so that both halves do not meet in the same lines
        for (int j = (k - 1 - l); j >= 0; j -= 16) s = __fmaf_rn(r[j], x[j], s);
        for (int o = 8; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o, 16);
    }
    if (l == 0 && row < m) y[row] = s;
}
