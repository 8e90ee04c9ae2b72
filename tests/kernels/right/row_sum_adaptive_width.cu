// problem: row_sum
// assay: launch row_sum_any grid=(ceil_div(rows, max(1, 256 // min(256, cols)))) block=(256) args=(x, y, rows, cols, min(256, cols))
// style: as many threads a row as it has columns, at most 256; several short rows share a block and its shared memory
__global__ void row_sum_any(const float* x, float* y, int rows, int cols, int width)
{
    __shared__ float part[256];
    const int per_block = 256 / width;
    const int slot = threadIdx.x / width, t = threadIdx.x - slot * width;
    const int row = blockIdx.x * per_block + slot;
    float s = 0.0f;
    if (slot < per_block && row < rows)
        for (int c = t; c < cols; c += width) s += x[(long long)row * cols + c];
    part[threadIdx.x] = s;
    for (int n = width; n > 1;) {
        const int half = (n + 1) / 2;
        __syncthreads();
        if (slot < per_block && t < n / 2) part[threadIdx.x] += part[threadIdx.x + half];
        n = half;
    }
    if (t == 0 && slot < per_block && row < rows) y[row] = part[threadIdx.x];
}
