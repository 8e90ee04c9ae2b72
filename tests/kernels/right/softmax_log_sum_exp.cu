// problem: softmax
// assay: launch softmax_lse grid=(min(rows, 2000)) block=(96) args=(x, y, rows, cols)
// style: through log-sum-exp as exp(x - max - log(sum)), three warps that meet by shared memory; blocks walk the rows
__global__ void softmax_lse(const float* x, float* y, int rows, int cols)
{
    __shared__ float tops[3], sums[3];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* in = x + (long long)row * cols;
        float top = -INFINITY;
        for (int c = threadIdx.x; c < cols; c += 96) top = fmaxf(top, in[c]);
        for (int d = 16; d > 0; d >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
        if (lane == 0) tops[warp] = top;
        __syncthreads();
        top = fmaxf(fmaxf(tops[0], tops[1]), tops[2]);
        float sum = 0.0f;
        for (int c = threadIdx.x; c < cols; c += 96) sum += expf(in[c] - top);
        for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (lane == 0) sums[warp] = sum;
        __syncthreads();
        const float lse = logf(sums[0] + sums[1] + sums[2]);
        for (int c = threadIdx.x; c < cols; c += 96) y[(long long)row * cols + c] = expf((in[c] - top) - lse);
        __syncthreads();
    }
}
