// problem: transpose
// class: sizes
// must: anything but passed
// why: the tile's first row and column are 16-bit numbers (to save registers), so rows from 65,536 on wrap around to the beginning and are never copied
// proof: assay grade --size rows=70000 --size cols=8 refuses it
// assay: launch transpose32 grid=(ceil_div(rows, 32), ceil_div(cols, 32)) block=(32, 8) args=(x, y, rows, cols)

__global__ void transpose32(const float* in, float* out, int rows, int cols)
{
    __shared__ float tile[32][33];
    const ushort2 origin = make_ushort2(blockIdx.y * 32, blockIdx.x * 32);  // x: column, y: row
    for (int j = threadIdx.y; j < 32; j += 8) {
        const int r = origin.y + j, c = origin.x + threadIdx.x;
        if (r < rows && c < cols) tile[j][threadIdx.x] = in[(size_t)r * cols + c];
    }
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += 8) {
        const int r = origin.y + threadIdx.x, c = origin.x + j;
        if (r < rows && c < cols) out[(size_t)c * rows + r] = tile[threadIdx.x][j];
    }
}
