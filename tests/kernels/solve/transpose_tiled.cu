// problem: transpose
// style: dim3 arithmetic, a padded tile
#include <cuda_runtime.h>

#define TILE 32
#define ROWS 8

__global__ void transpose(const float* input, float* output, int rows, int cols)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = input[(y + j) * cols + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < rows && y + j < cols) output[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    dim3 threadsPerBlock(TILE, ROWS);
    dim3 blocksPerGrid((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    transpose<<<blocksPerGrid, threadsPerBlock>>>(input, output, rows, cols);
    cudaDeviceSynchronize();
}
