// problem: rms_norm
// style: a few blocks stride over the rows; a do-while loop; sums in double
// assay: launch rms_rows grid=(min(rows, 40)) block=(64) args=(x, weight, y, eps, rows, cols)

__global__ void rms_rows(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    __shared__ double sums[64];
    int row = blockIdx.x;
    do {
        const float* in = &x[(size_t)row * cols];
        double sum = 0;
        for (int col = threadIdx.x; col < cols; col += 64) sum += (double)in[col] * in[col];
        sums[threadIdx.x] = sum;
        __syncthreads();
        sum = 0;
        for (int t = 0; t < 64; t++) sum += sums[t];
        __syncthreads();
        const float scale = (float)(1.0 / sqrt(sum / cols + eps));
        for (int col = threadIdx.x; col < cols; col += 64) y[(size_t)row * cols + col] = in[col] * scale * weight[col];
        row += gridDim.x;
    } while (row < rows);
}
