// problem: row_sum
// style: two rows a warp; each half meets itself in shared memory behind __syncwarp with its own mask
// assay: launch sum grid=(ceil_div(rows, 8)) block=(128) args=(x, y, rows, cols)

__global__ void sum(const float* x, float* y, int rows, int cols)
{
    __shared__ float part[8][16];
    const int half = threadIdx.x / 16, lane = threadIdx.x % 16, row = blockIdx.x * 8 + half;
    const unsigned mask = half % 2 ? 0xffff0000u : 0xffffu;
    if (row >= rows) return;
    float total = 0.0f;
    for (int col = lane; col < cols; col += 16) total += x[(size_t)row * cols + col];
    part[half][lane] = total;
    for (int step = 8; step > 0; step /= 2) {
        __syncwarp(mask);
        if (lane < step) part[half][lane] += part[half][lane + step];
    }
    if (lane == 0) y[row] = part[half][0];
}
