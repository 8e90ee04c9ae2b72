// problem: softmax
// style: online softmax, one warp a row: running maximum and rescaled sum in one pass
// assay: launch softmax grid=(ceil_div(rows, 4)) block=(32, 4) args=(x, y, rows, cols)

__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int col = threadIdx.x; col < cols; col += 32) {
        const float value = in[col];
        if (value > top) {
            sum *= expf(top - value);
            top = value;
        }
        sum += expf(value - top);
    }
    for (int mask = 16; mask > 0; mask >>= 1) {
        const float other_top = __shfl_xor_sync(0xffffffffu, top, mask);
        const float other_sum = __shfl_xor_sync(0xffffffffu, sum, mask);
        const float both = fmaxf(top, other_top);
        // A lane without elements has top = -inf and sum = 0; two of them must not make inf - inf.
        sum = (sum > 0.0f ? sum * expf(top - both) : 0.0f) +
              (other_sum > 0.0f ? other_sum * expf(other_top - both) : 0.0f);
        top = both;
    }
    for (int col = threadIdx.x; col < cols; col += 32) {
        out[col] = expf(in[col] - top) / sum;
    }
}
