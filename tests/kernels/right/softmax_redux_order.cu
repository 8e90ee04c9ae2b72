// problem: softmax
// assay: launch softmax_redux grid=(ceil_div(rows, 8)) block=(256) args=(x, y, rows, cols)
// style: the maximum by redux.sync on integers that order as the floats do (__reduce_max_sync), sums by shuffles
__device__ int ordered(float v)
{
    const int b = __float_as_int(v);
    return b ^ ((b >> 31) & 0x7fffffff);
}

__global__ void softmax_redux(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    int key = (int)0x80000000;
    for (int c = lane; c < cols; c += 32) key = max(key, ordered(in[c]));
    key = __reduce_max_sync(0xffffffffu, key);
    const float top = __int_as_float(key ^ ((key >> 31) & 0x7fffffff));
    float sum = 0.0f;
    for (int c = lane; c < cols; c += 32) sum += expf(in[c] - top);
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    for (int c = lane; c < cols; c += 32) y[(size_t)row * cols + c] = expf(in[c] - top) / sum;
}
