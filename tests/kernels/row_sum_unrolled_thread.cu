// problem: row_sum
// style: one thread a row, eight accumulators in a local array indexed at run time
// assay: launch row_thread grid=(ceil_div(rows, 64)) block=(64) args=(x, y, rows, cols)

__global__ void row_thread(const float* x, float* y, unsigned rows, unsigned cols)
{
    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    float lanes[8] = {};
    for (unsigned col = 0; col < cols; ++col) {
        lanes[(col * 2654435761u >> 7) % 8] += x[(size_t)row * cols + col];
    }
    y[row] = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}
