// problem: matvec
// style: odd and even groups of 4 lanes go different ways and shuffle there, each with the mask of its four
// assay: launch product grid=(ceil_div(m, 32)) block=(128) args=(a, x, y, m, k)

__global__ void product(const float* a, const float* x, float* y, int m, int k)
{
    const int row = blockIdx.x * 32 + threadIdx.x / 4, part = threadIdx.x % 4;
    const unsigned mask = 0xfu << (threadIdx.x & 28);
    if (row >= m) return;
    float sum = 0.0f;
    for (int i = part; i < k; i += 4) sum += a[(size_t)row * k + i] * x[i];
    if (row % 2) {
        sum += __shfl_xor_sync(mask, sum, 1);
        sum += __shfl_xor_sync(mask, sum, 2);
    } else {
        sum += __shfl_down_sync(mask, sum, 2, 4);
        sum += __shfl_down_sync(mask, sum, 1, 4);
    }
    if (part == 0) y[row] = sum;
}
