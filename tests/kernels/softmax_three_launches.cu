// problem: softmax
// style: maximum, sum and quotient in three launches with two temporaries
// assay: temp tops float32 (rows)
// assay: temp sums float32 (rows)
// assay: launch row_tops grid=(ceil_div(rows, 32)) block=(32) args=(x, tops, rows, cols)
// assay: launch row_exp_sums grid=(rows) block=(64) args=(x, tops, sums, cols)
// assay: launch divide grid=(rows, ceil_div(cols, 128)) block=(128) args=(x, tops, sums, y, cols)

__global__ void row_tops(const float* x, float* tops, int rows, int cols)
{
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row < rows) {
        float top = x[(size_t)row * cols];
        for (int col = 1; col < cols; ++col) {
            top = fmaxf(top, x[(size_t)row * cols + col]);
        }
        tops[row] = top;
    }
}

__global__ void row_exp_sums(const float* x, const float* tops, float* sums, int cols)
{
    __shared__ float s[64];
    const size_t base = (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int col = threadIdx.x; col < cols; col += 64) {
        sum += expf(x[base + col] - tops[blockIdx.x]);
    }
    s[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < 64; ++t) {
            sum += s[t];
        }
        sums[blockIdx.x] = sum;
    }
}

__global__ void divide(const float* x, const float* tops, const float* sums, float* y, int cols)
{
    const int col = blockIdx.y * 128 + threadIdx.x;
    if (col < cols) {
        const size_t i = (size_t)blockIdx.x * cols + col;
        y[i] = expf(x[i] - tops[blockIdx.x]) / sums[blockIdx.x];
    }
}
