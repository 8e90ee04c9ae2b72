// problem: transpose
// assay: temp stamp uint32 (ceil_div(rows, 16))
// assay: temp copy float32 (rows * cols)
// assay: fill stamp value=0
// assay: launch bring grid=(ceil_div(rows, 16)) block=(128) args=(x, copy, stamp, rows, cols, 1)
// assay: launch bring grid=(ceil_div(rows, 16)) block=(128) args=(x, copy, stamp, rows, cols, 2)
// assay: launch turn grid=(ceil_div(rows, 16)) block=(128) args=(copy, y, stamp, rows, cols, 2)
// style: stamps that count launches; the odd rows come with launch 1, the even ones with launch 2, the third looks for stamp 2
__global__ void bring(const float* x, float* copy, unsigned* stamp, int rows, int cols, unsigned launch)
{
    for (int r = blockIdx.x * 16; r < min(rows, (int)(blockIdx.x + 1) * 16); ++r)
        if ((r & 1) == (launch & 1))
            for (int c = threadIdx.x; c < cols; c += 128) copy[(size_t)r * cols + c] = x[(size_t)r * cols + c];
    if (threadIdx.x == 0 && stamp[blockIdx.x] == launch - 1) stamp[blockIdx.x] = launch;
}

__global__ void turn(const float* copy, float* y, const unsigned* stamp, int rows, int cols, unsigned wanted)
{
    if (stamp[blockIdx.x] != wanted) return;
    for (int e = threadIdx.x; e < 16 * cols; e += 128) {
        const int r = blockIdx.x * 16 + e % 16, c = e / 16;
        if (r < rows) y[(size_t)c * rows + r] = copy[(size_t)r * cols + c];
    }
}
