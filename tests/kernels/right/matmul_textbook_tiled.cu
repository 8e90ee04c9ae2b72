// problem: matmul
// assay: launch matrixMulKernel grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, k, n)
// style: the textbook's tiled product: Mds and Nds, a phase loop, boundary checks
#define TILE_WIDTH 16

__global__ void matrixMulKernel(float* M, float* N, float* P, int Rows, int Inner, int Cols)
{
    __shared__ float Mds[TILE_WIDTH][TILE_WIDTH];
    __shared__ float Nds[TILE_WIDTH][TILE_WIDTH];

    int bx = blockIdx.x;  int by = blockIdx.y;
    int tx = threadIdx.x; int ty = threadIdx.y;

    // Identify the row and column of the P element to work on
    int Row = by * TILE_WIDTH + ty;
    int Col = bx * TILE_WIDTH + tx;

    float Pvalue = 0;
    for (int ph = 0; ph < (Inner + TILE_WIDTH - 1) / TILE_WIDTH; ++ph) {
        if ((Row < Rows) && (ph * TILE_WIDTH + tx) < Inner)
            Mds[ty][tx] = M[Row * Inner + ph * TILE_WIDTH + tx];
        else
            Mds[ty][tx] = 0.0f;
        if ((ph * TILE_WIDTH + ty) < Inner && Col < Cols)
            Nds[ty][tx] = N[(ph * TILE_WIDTH + ty) * Cols + Col];
        else
            Nds[ty][tx] = 0.0f;
        __syncthreads();

        for (int i = 0; i < TILE_WIDTH; ++i) Pvalue += Mds[ty][i] * Nds[i][tx];
        __syncthreads();
    }
    if ((Row < Rows) && (Col < Cols)) P[Row * Cols + Col] = Pvalue;
}
