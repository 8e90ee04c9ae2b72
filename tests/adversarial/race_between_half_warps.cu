// problem: row_sum
// attack: __syncwarp with the mask of each half, but each lane reads what the other half wrote too
// expect: incorrect
// because: a member mask orders only the lanes that it names
// message: race
// assay: launch sum grid=(ceil_div(rows, 8)) block=(256) args=(x, y, rows, cols)

__global__ void sum(const float* x, float* y, int rows, int cols)
{
    __shared__ float part[8][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 8 + warp;
    if (row >= rows) return;
    float total = 0.0f;
    for (int col = lane; col < cols; col += 32) total += x[(size_t)row * cols + col];
    part[warp][lane] = total;
    __syncwarp(lane < 16 ? 0xffffu : 0xffff0000u);
    total = 0.0f;
    for (int i = 0; i < 32; ++i) total += part[warp][(lane + i) % 32];
    if (lane == 0) y[row] = total;
}
