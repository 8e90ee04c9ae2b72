// problem: softmax
// assay: launch softmax_naive grid=(ceil_div(rows, 64)) block=(64) args=(x, y, rows, cols)
// style: one thread a row, three loops as in a first lecture; the sum in double
__global__ void softmax_naive(const float* x, float* y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        const float* in = x + (size_t)row * cols;
        float* out = y + (size_t)row * cols;
        float x_max = -INFINITY;
        double norm = 0.0;
        for (int j = 0; j < cols; j++) x_max = fmaxf(x_max, in[j]);
        for (int j = 0; j < cols; j++) norm += expf(in[j] - x_max);
        for (int j = 0; j < cols; j++) out[j] = expf(in[j] - x_max) / (float)norm;
    }
}
