// problem: rms_norm
// assay: launch rms_plain grid=(ceil_div(rows, 32)) block=(32) args=(x, weight, y, eps, rows, cols)
// style: one thread a row, plain C, double inside
__global__ void rms_plain(const float *x, const float *weight, float *y, float eps, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j;
    double ss = 0.0;
    if (i >= rows)
        return;
    for (j = 0; j < cols; j++)
        ss += (double)x[i * cols + j] * x[i * cols + j];
    ss = 1.0 / sqrt(ss / cols + eps);
    for (j = 0; j < cols; j++)
        y[i * cols + j] = (float)(x[i * cols + j] * ss * weight[j]);
}
