// problem: row_sum
// style: pairwise summation as numpy does it: halves down to 128 elements, there eight accumulators; a thread a row
// assay: launch rows_pairwise grid=(ceil_div(rows, 32)) block=(32) args=(x, y, rows, cols)
__device__ float leaf(const float* a, int n)
{
    if (n < 8) {
        float sum = 0.0f;
        for (int i = 0; i < n; ++i) sum += a[i];
        return sum;
    }
    float r[8];
    for (int k = 0; k < 8; ++k) r[k] = a[k];
    int i = 8;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; ++k) r[k] += a[i + k];
    float sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; ++i) sum += a[i];
    return sum;
}

// The stack of halves that recursion would have: sums of equal length are joined as a binary counter carries.
__global__ void rows_pairwise(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float stack[24];
    int depth = 0, leaves = 0;
    for (int first = 0; first < cols; first += 128) {
        float v = leaf(in + first, min(128, cols - first));
        for (int k = ++leaves; k % 2 == 0; k /= 2) v += stack[--depth];
        stack[depth++] = v;
    }
    float sum = 0.0f;
    while (depth > 0) sum += stack[--depth];
    y[row] = sum;
}
