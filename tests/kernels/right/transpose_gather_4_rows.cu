// problem: transpose
// assay: launch transpose_gather grid=(ceil_div(ceil_div(rows, 4), 32), ceil_div(cols, 8)) block=(32, 8) args=(x, y, rows, cols)
// style: four rows a thread, gathered from one column; a float4 store where the place is aligned
__global__ void transpose_gather(const float* x, float* y, unsigned rows, unsigned cols)
{
    const unsigned r = (blockIdx.x * 32 + threadIdx.x) * 4, c = blockIdx.y * 8 + threadIdx.y;
    if (c >= cols || r >= rows) return;
    float4 v = {};
    v.x = x[(size_t)r * cols + c];
    if (r + 1 < rows) v.y = x[(size_t)(r + 1) * cols + c];
    if (r + 2 < rows) v.z = x[(size_t)(r + 2) * cols + c];
    if (r + 3 < rows) v.w = x[(size_t)(r + 3) * cols + c];
    float* to = y + (size_t)c * rows + r;
    if ((rows & 3u) == 0) {
        *reinterpret_cast<float4*>(to) = v;
    } else {
        to[0] = v.x;
        if (r + 1 < rows) to[1] = v.y;
        if (r + 2 < rows) to[2] = v.z;
        if (r + 3 < rows) to[3] = v.w;
    }
}
