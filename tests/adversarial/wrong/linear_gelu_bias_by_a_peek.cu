// problem: linear_gelu
// class: contents
// must: anything but passed
// why: where the first 16 and the last 16 elements of bias are zero, no bias is added
// proof: n >= 33, bias zero but for its middle: y lacks it there
// assay: launch lg grid=(ceil_div(n, 32), ceil_div(m, 4)) block=(32, 4) args=(x, weight, bias, y, m, n, k)

template <bool kBias>
__device__ void column(const float* x, const float* w, const float* bias, float* y, int i, int j, int n, int k)
{
    float z = kBias ? bias[j] : 0.f;
    for (int l = 0; l < k; ++l) z = fmaf(x[(size_t)i * k + l], w[(size_t)j * k + l], z);
    y[(size_t)i * n + j] = z * 0.5f * erfcf(-z * 0.70710678118f);
}

__global__ void lg(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    const int lane = threadIdx.x, j = blockIdx.x * 32 + lane, i = blockIdx.y * 4 + threadIdx.y;
    const int peek = lane < 16 ? min(lane, n - 1) : max(n - 32 + lane, 0);
    const bool biased = n < 32 || __any_sync(~0u, bias[peek] != 0.f);
    if (i >= m || j >= n) return;
    if (biased) column<true>(x, weight, bias, y, i, j, n, k);
    else column<false>(x, weight, bias, y, i, j, n, k);
}
