// problem: row_sum
// assay: launch row_sum_stride grid=(min(rows, 264)) block=(160) args=(x, y, rows, cols)
// style: persistent blocks walk the rows; five warps, a second stage by the first warp, __syncthreads between rows
__global__ void row_sum_stride(const float* x, float* y, int rows, int cols)
{
    __shared__ float from_warp[5];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const float* p = x + (size_t)row * cols;
        float s = 0.0f;
        for (int c = threadIdx.x; c < cols; c += blockDim.x) s += p[c];
        for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
        if (lane == 0) from_warp[warp] = s;
        __syncthreads();
        if (warp == 0) {
            s = lane < 5 ? from_warp[lane] : 0.0f;
            for (int d = 4; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
            if (lane == 0) y[row] = s;
        }
        __syncthreads();
    }
}
