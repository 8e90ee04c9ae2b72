// problem: row_sum
// class: size (end of the range)
// why: at most 100,000 blocks, one for each row: rows from 100,000 to 131,071 stay unwritten
// assay: launch rs grid=(min(rows, 100000)) block=(128) args=(x, y, rows, cols)
__global__ void rs(const float* x, float* y, int rows, int cols)
{
    __shared__ float p[4];
    int r = blockIdx.x;
    float s = 0.f;
    for (int c = threadIdx.x; c < cols; c += 128) s += x[(size_t)r * cols + c];
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) p[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) y[r] = p[0] + p[1] + p[2] + p[3];
}
