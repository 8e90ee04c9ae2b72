// problem: row_sum
// assay: fill y value=0
// assay: launch segments grid=(min(ceil_div(rows * cols, 256), 2640)) block=(256) args=(x, y, rows * cols, cols)
// style: as sparse products in coordinate form: flat elements, a segmented reduction by row within each warp, atomics at the heads
__global__ void segments(const float* x, float* y, int total, int cols)
{
    const int lane = threadIdx.x & 31;
    for (int base = blockIdx.x * blockDim.x; base < total; base += gridDim.x * blockDim.x) {
        const int i = base + threadIdx.x;
        const int row = i < total ? i / cols : -1;
        float s = i < total ? x[i] : 0.0f;
        for (int d = 1; d < 32; d <<= 1) {
            const float other = __shfl_down_sync(0xffffffffu, s, d);
            const int its_row = __shfl_down_sync(0xffffffffu, row, d);
            if (lane + d < 32 && its_row == row) s += other;
        }
        const int left = __shfl_up_sync(0xffffffffu, row, 1);
        if (row >= 0 && (lane == 0 || left != row)) atomicAdd(&y[row], s);
    }
}
