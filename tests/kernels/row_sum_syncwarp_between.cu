// problem: row_sum
// style: lanes hand values over in shared memory with `__syncwarp()` before and after, and shuffles beside it
// assay: launch sum_rows grid=(ceil_div(rows, 4)) block=(128) args=(x, y, rows, cols)

__global__ void sum_rows(const float* x, float* y, int rows, int cols)
{
    __shared__ float parts[4][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 4 + warp;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int start = 0; start < cols; start += 32) {
        parts[warp][lane] = start + lane < cols ? x[(size_t)row * cols + start + lane] : 0.0f;
        __syncwarp();
        const float pair = parts[warp][lane] + parts[warp][lane ^ 16];
        sum += lane < 16 ? pair : 0.0f;
        __syncwarp();
    }
    for (int o = 8; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o, 16);
    if (lane == 0) y[row] = sum;
}
