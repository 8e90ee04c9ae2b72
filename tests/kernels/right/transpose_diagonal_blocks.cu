// problem: transpose
// assay: launch transposeDiagonal grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8) args=(y, x, cols, rows)
// style: the transposition white paper: blocks in diagonal order, also where the grid is not square
#define TILE_DIM 32
#define BLOCK_ROWS 8

__global__ void transposeDiagonal(float *odata, const float *idata, int width, int height)
{
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    int blockIdx_x, blockIdx_y;

    // diagonal reordering
    if (gridDim.x == gridDim.y) {
        blockIdx_y = blockIdx.x;
        blockIdx_x = (blockIdx.x + blockIdx.y) % gridDim.x;
    } else {
        int bid = blockIdx.x + gridDim.x * blockIdx.y;
        blockIdx_y = bid % gridDim.y;
        blockIdx_x = ((bid / gridDim.y) + blockIdx_y) % gridDim.x;
    }

    int xIndex = blockIdx_x * TILE_DIM + threadIdx.x;
    int yIndex = blockIdx_y * TILE_DIM + threadIdx.y;
    for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS)
        if (xIndex < width && yIndex + i < height)
            tile[threadIdx.y + i][threadIdx.x] = idata[(yIndex + i) * width + xIndex];
    __syncthreads();

    xIndex = blockIdx_y * TILE_DIM + threadIdx.x;
    yIndex = blockIdx_x * TILE_DIM + threadIdx.y;
    for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS)
        if (xIndex < height && yIndex + i < width)
            odata[(yIndex + i) * height + xIndex] = tile[threadIdx.x][threadIdx.y + i];
}
