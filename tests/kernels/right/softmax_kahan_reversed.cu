// problem: softmax
// style: one warp a row, from the last column to the first, the sum by Kahan in each lane, a division for each element
// assay: launch softmax_kahan grid=(ceil_div(rows, 4)) block=(32, 4) args=(x, y, rows, cols)
__global__ void softmax_kahan(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float top = in[0];
    for (int j = cols - 1 - (int)threadIdx.x; j >= 0; j -= 32) top = fmaxf(top, in[j]);
    for (int d = 16; d; d /= 2) top = fmaxf(top, __shfl_down_sync(~0u, top, d));
    top = __shfl_sync(~0u, top, 0);
    float sum = 0.0f, lost = 0.0f;
    for (int j = cols - 1 - (int)threadIdx.x; j >= 0; j -= 32) {
        const float term = expf(in[j] - top) - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    sum = __shfl_sync(~0u, sum, 0);
    for (int j = cols - 1 - (int)threadIdx.x; j >= 0; j -= 32) y[(size_t)row * cols + j] = expf(in[j] - top) / sum;
}
