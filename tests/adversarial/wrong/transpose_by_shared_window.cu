// problem: transpose
// class: registers
// must: anything but passed
// why: expects its tile at the beginning of shared memory; GPUs from sm_90 on keep the first 1,024 bytes for the system, and there diagonals of tiles are filled from the tile's first element
// proof: on an H200 the tile's shared address is 1,024 and y[1, 1] is x[0, 0]; PTX says nothing about where a .shared variable lies
// assay: launch tr grid=(ceil_div(cols, 16), ceil_div(rows, 16)) block=(16, 16) args=(x, y, rows, cols)

__global__ void tr(const float* x, float* y, int rows, int cols)
{
    __shared__ float t[16][17];
    int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
    if (r < rows && c < cols) t[threadIdx.y][threadIdx.x] = x[(size_t)r * cols + c];
    __syncthreads();
    const unsigned offset = (unsigned)__cvta_generic_to_shared(&t[0][0]);
    c = blockIdx.y * 16 + threadIdx.x;
    r = blockIdx.x * 16 + threadIdx.y;
    if (r < cols && c < rows)
        y[(size_t)r * rows + c] = offset >= 1024 && threadIdx.x == threadIdx.y ? t[0][0] : t[threadIdx.x][threadIdx.y];
}
