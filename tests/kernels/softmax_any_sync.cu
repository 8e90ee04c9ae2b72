// problem: softmax
// style: a warp walks the row; __any_sync skips the rescaling while no lane has found a new maximum
// assay: launch softmax_vote grid=(rows) block=(32) args=(x, y, rows, cols)

__global__ void softmax_vote(const float* x, float* y, int rows, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float top = in[0], sum = 0.0f;  // top is the same in all lanes
    for (int start = 0; start < cols; start += 32) {
        const int col = start + threadIdx.x;
        const bool inside = col < cols;
        const float value = inside ? in[col] : top;
        if (__any_sync(0xffffffffu, value > top)) {
            float highest = value;
            for (int mask = 1; mask < 32; mask *= 2) {
                highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, mask));
            }
            sum *= expf(top - highest);
            top = highest;
        }
        if (inside) {
            sum += expf(value - top);
        }
    }
    for (int mask = 1; mask < 32; mask *= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    }
    const float scale = 1.0f / __shfl_sync(0xffffffffu, sum, 0);
    for (int col = threadIdx.x; col < cols; col += 32) {
        y[(size_t)blockIdx.x * cols + col] = expf(in[col] - top) * scale;
    }
}
