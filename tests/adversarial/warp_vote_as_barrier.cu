// problem: row_sum
// attack: a vote stands where `__syncwarp()` should, in a tree of shared sums
// expect: passed
// because: a vote brings lanes together and orders no memory
// warns: lockstep
// assay: launch sum_rows grid=(rows) block=(32) args=(x, y, rows, cols)

__global__ void sum_rows(const float* x, float* y, int rows, int cols)
{
    __shared__ float parts[32];
    const int lane = threadIdx.x;
    float sum = 0.0f;
    for (int col = lane; col < cols; col += 32) sum += x[(size_t)blockIdx.x * cols + col];
    parts[lane] = sum;
    for (int half = 16; half > 0; half /= 2) {
        if (__any_sync(~0u, lane < half) && lane < half) parts[lane] = parts[lane] + parts[lane + half];  // HERE
    }
    if (lane == 0) y[blockIdx.x] = parts[0];
}
