// problem: softmax
// assay: temp m float32 (rows, ceil_div(cols, 2048))
// assay: temp d float32 (rows, ceil_div(cols, 2048))
// assay: launch part grid=(rows, ceil_div(cols, 2048)) block=(256) args=(x, m, d, cols)
// assay: launch finish grid=(rows, ceil_div(cols, 2048)) block=(256) args=(x, m, d, y, cols)
// style: long rows over several blocks: each leaves maximum and sum of its piece, the second launch joins and writes
__device__ float reduce_block(float v, bool top)
{
    __shared__ float s[256];
    __syncthreads();
    s[threadIdx.x] = v;
    __syncthreads();
#pragma unroll
    for (int h = 128; h > 0; h >>= 1) {
        if (threadIdx.x < h) s[threadIdx.x] = top ? fmaxf(s[threadIdx.x], s[threadIdx.x + h]) : s[threadIdx.x] + s[threadIdx.x + h];
        __syncthreads();
    }
    return s[0];
}

__global__ void part(const float* x, float* m, float* d, int cols)
{
    const float* row = x + (size_t)blockIdx.x * cols;
    const int begin = blockIdx.y * 2048, end = min(cols, begin + 2048);
    float top = __int_as_float(0xff800000);
    for (int c = begin + threadIdx.x; c < end; c += 256) top = fmaxf(top, row[c]);
    top = reduce_block(top, true);
    float sum = 0.0f;
    for (int c = begin + threadIdx.x; c < end; c += 256) sum += expf(row[c] - top);
    sum = reduce_block(sum, false);
    if (threadIdx.x == 0) {
        m[blockIdx.x * gridDim.y + blockIdx.y] = top;
        d[blockIdx.x * gridDim.y + blockIdx.y] = sum;
    }
}

__global__ void finish(const float* x, const float* m, const float* d, float* y, int cols)
{
    const size_t start = (size_t)blockIdx.x * cols;
    float top = m[blockIdx.x * gridDim.y], sum = 0.0f;
    for (int p = 1; p < gridDim.y; ++p) top = fmaxf(top, m[blockIdx.x * gridDim.y + p]);
    for (int p = 0; p < gridDim.y; ++p) sum += d[blockIdx.x * gridDim.y + p] * expf(m[blockIdx.x * gridDim.y + p] - top);
    const int begin = blockIdx.y * 2048, end = min(cols, begin + 2048);
    for (int c = begin + threadIdx.x; c < end; c += 256) y[start + c] = expf(x[start + c] - top) / sum;
}
