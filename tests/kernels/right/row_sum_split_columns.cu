// problem: row_sum
// assay: temp pieces float64 (rows, ceil_div(cols, 4096))
// assay: launch piece_sums grid=(rows, ceil_div(cols, 4096)) block=(128) args=(x, pieces, cols)
// assay: launch add_pieces grid=(ceil_div(rows, 256)) block=(256) args=(pieces, y, rows, ceil_div(cols, 4096))
// style: long rows are cut into pieces of 4096, a block each; a second launch adds the pieces in double
__global__ void piece_sums(const float* x, double* pieces, int cols)
{
    __shared__ double s[128];
    const size_t row = blockIdx.x;
    const int begin = blockIdx.y * 4096, end = min(begin + 4096, cols);
    double mine = 0;
    for (int c = begin + threadIdx.x; c < end; c += 128) mine += x[row * cols + c];
    s[threadIdx.x] = mine;
    for (int half = 64; half >= 1; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
    }
    if (threadIdx.x == 0) pieces[row * gridDim.y + blockIdx.y] = s[0];
}

__global__ void add_pieces(const double* pieces, float* y, int rows, int count)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    double sum = 0;
    for (int p = 0; p < count; ++p) sum += pieces[(size_t)row * count + p];
    y[row] = sum;
}
