// problem: linear_gelu
// style: a warp an element, lanes over k, whichever lane holds the sum writes
// assay: launch linear_gelu_warp grid=(m, ceil_div(n, 8)) block=(256) args=(x, weight, bias, y, n, k)

__global__ void linear_gelu_warp(const float* __restrict__ x, const float* __restrict__ weight,
                                 const float* __restrict__ bias, float* __restrict__ y, int n, int k)
{
    const int col = blockIdx.y * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (col >= n) return;
    float sum = lane == 31 ? bias[col] : 0.0f;
    for (int i = lane; i < k; i += 32) {
        sum = __fmaf_rn(x[(size_t)blockIdx.x * k + i], weight[(size_t)col * k + i], sum);
    }
    for (int offset = 1; offset < 32; offset <<= 1) {
        const float lower = __shfl_up_sync(0xffffffffu, sum, offset);
        if (lane >= offset) sum += lower;
    }
    if (lane == 31) {
        y[(size_t)blockIdx.x * n + col] = sum * 0.5f * erfcf(sum * -0.70710678f);
    }
}
