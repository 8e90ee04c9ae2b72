// problem: relu
// assay: launch relu_skips grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)
// style: a warp votes: where nothing is positive, every fourth lane writes four zeros at once
__global__ void relu_skips(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    const float v = i < n ? x[i] : 0.0f;
    const bool whole = __all_sync(0xffffffffu, i < n);
    const unsigned positive = __ballot_sync(0xffffffffu, v > 0.0f);
    if (positive == 0 && whole) {
        if ((threadIdx.x & 3) == 0) *reinterpret_cast<float4*>(y + i) = make_float4(0, 0, 0, 0);
    } else if (i < n) {
        y[i] = (positive >> (threadIdx.x & 31)) & 1 ? v : 0.0f;
    }
}
