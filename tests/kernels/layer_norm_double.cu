// problem: layer_norm
// style: sums of values and squares in double, where the subtraction does no harm
// assay: launch layer_norm_f64 grid=(rows) block=(128) args=(x, weight, bias, y, eps, rows, cols)

__global__ void layer_norm_f64(const float* __restrict__ x, const float* __restrict__ weight,
                               const float* __restrict__ bias, float* __restrict__ y, float eps, int rows, int cols)
{
    __shared__ double sums[128], squares[128];
    const size_t base = (size_t)blockIdx.x * cols;
    double sum = 0.0, square = 0.0;
    const double shift = x[base];  // near the data, so that nothing large cancels
    for (int col = threadIdx.x; col < cols; col += 128) {
        const double v = x[base + col] - shift;
        sum += v;
        square += v * v;
    }
    sums[threadIdx.x] = sum;
    squares[threadIdx.x] = square;
    __syncthreads();
    for (int half = 64; half; half >>= 1) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
            squares[threadIdx.x] += squares[threadIdx.x + half];
        }
        __syncthreads();
    }
    const double mean = sums[0] / cols;
    const double variance = fmax(0.0, squares[0] / cols - mean * mean);
    const double scale = 1.0 / sqrt(variance + eps);
    for (int col = threadIdx.x; col < cols; col += 128) {
        y[base + col] = (float)((x[base + col] - shift - mean) * scale * weight[col] + bias[col]);
    }
}
