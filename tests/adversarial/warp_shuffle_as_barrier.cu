// problem: row_sum
// attack: lanes hand values over in shared memory, with only a shuffle between the store and the loads
// expect: passed
// because: a shuffle orders no memory; as compiled and run here the lanes ran together, so nothing was wrong
// warns: lockstep
// assay: launch sum_rows grid=(ceil_div(rows, 8)) block=(256) args=(x, y, rows, cols)

__global__ void sum_rows(const float* x, float* y, int rows, int cols)
{
    __shared__ float parts[8][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 8 + warp;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int col = lane; col < cols; col += 32) sum += x[(size_t)row * cols + col];
    parts[warp][lane] = sum;
    const int neighbour = __shfl_xor_sync(~0u, lane, 1);
    float total = 0.0f;
    if (neighbour >= 0) {
        for (int i = 0; i < 32; i++) total += parts[warp][(lane + i) & 31];  // HERE
    }
    if (lane == 0) y[row] = total;
}
