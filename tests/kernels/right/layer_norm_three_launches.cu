// problem: layer_norm
// assay: temp means float64 (rows)
// assay: temp scales float32 (rows)
// assay: launch mean_rows grid=(ceil_div(rows, 4)) block=(32, 4) args=(x, means, rows, cols)
// assay: launch scale_rows grid=(ceil_div(rows, 4)) block=(32, 4) args=(x, means, scales, eps, rows, cols)
// assay: launch apply grid=(ceil_div(cols, 64), min(rows, 65535)) block=(64) args=(x, means, scales, weight, bias, y, rows, cols)
// style: three launches: means in double, scales, application; gridDim.y strides where there are more than 65,535 rows
template <class T> __device__ T warp_total(T v)
{
    for (int d = 1; d < 32; d += d) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

__global__ void mean_rows(const float* x, double* means, int rows, int cols)
{
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;
    double s = 0;
    for (int j = threadIdx.x; j < cols; j += 32) s += x[(size_t)row * cols + j];
    s = warp_total(s);
    if (threadIdx.x == 0) means[row] = s / cols;
}

__global__ void scale_rows(const float* x, const double* means, float* scales, float eps, int rows, int cols)
{
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;
    double s = 0;
    for (int j = threadIdx.x; j < cols; j += 32) {
        const double d = x[(size_t)row * cols + j] - means[row];
        s += d * d;
    }
    s = warp_total(s);
    if (threadIdx.x == 0) scales[row] = (float)rsqrt(s / cols + eps);
}

__global__ void apply(const float* x, const double* means, const float* scales, const float* weight, const float* bias, float* y, int rows, int cols)
{
    const int j = blockIdx.x * 64 + threadIdx.x;
    if (j >= cols) return;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        const size_t i = (size_t)row * cols + j;
        y[i] = float(x[i] - means[row]) * scales[row] * weight[j] + bias[j];
    }
}
