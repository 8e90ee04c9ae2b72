// problem: transpose
// assay: launch transpose_tall<16, 96> grid=(ceil_div(rows, 96), ceil_div(cols, 16)) block=(192) args=(x, y, rows, cols)
// style: a tall tile of 96 rows by 16 columns, template constants, blocks of 192 threads; odd padding
template <int W, int H> __global__ void __launch_bounds__(192) transpose_tall(const float* x, float* y, int rows, int cols)
{
    static_assert(W * H % 192 == 0, "each thread moves as much as the others");
    __shared__ float buffer[H * (W + 1)];
    const int row = blockIdx.x * H, col = blockIdx.y * W;
#pragma unroll
    for (int k = threadIdx.x; k < W * H; k += 192) {
        const int i = k / W, j = k % W;
        if (row + i < rows && col + j < cols) buffer[i * (W + 1) + j] = __ldcs(&x[size_t(row + i) * cols + col + j]);
    }
    __syncthreads();
#pragma unroll
    for (int k = threadIdx.x; k < W * H; k += 192) {
        const int i = k % H, j = k / H;
        if (row + i < rows && col + j < cols) __stwt(&y[size_t(col + j) * rows + row + i], buffer[i * (W + 1) + j]);
    }
}
template __global__ void transpose_tall<16, 96>(const float*, float*, int, int);
