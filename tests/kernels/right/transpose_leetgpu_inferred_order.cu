// problem: transpose
// assay: launch matrix_transpose_kernel grid=(ceil_div(cols, 16), ceil_div(rows, 16)) block=(16, 16) args=(x, y, rows, cols)
// style: a model's answer to an online judge: 16 x 16 tile, padding against bank conflicts, comments on every line
#include <cuda_runtime.h>

#define TILE_SIZE 16

__global__ void matrix_transpose_kernel(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[TILE_SIZE][TILE_SIZE + 1];  // +1 to avoid bank conflicts

    int x = blockIdx.x * TILE_SIZE + threadIdx.x;  // column in the input
    int y = blockIdx.y * TILE_SIZE + threadIdx.y;  // row in the input

    if (x < cols && y < rows) {
        tile[threadIdx.y][threadIdx.x] = input[y * cols + x];  // coalesced read
    }

    __syncthreads();  // wait until the whole tile has been read

    x = blockIdx.y * TILE_SIZE + threadIdx.x;  // column in the output
    y = blockIdx.x * TILE_SIZE + threadIdx.y;  // row in the output

    if (x < rows && y < cols) {
        output[y * rows + x] = tile[threadIdx.x][threadIdx.y];  // coalesced write
    }
}

extern "C" void solve(const float* input, float* output, int rows, int cols) {
    dim3 threadsPerBlock(TILE_SIZE, TILE_SIZE);
    dim3 blocksPerGrid((cols + TILE_SIZE - 1) / TILE_SIZE, (rows + TILE_SIZE - 1) / TILE_SIZE);
    matrix_transpose_kernel<<<blocksPerGrid, threadsPerBlock>>>(input, output, rows, cols);
    cudaDeviceSynchronize();
}
