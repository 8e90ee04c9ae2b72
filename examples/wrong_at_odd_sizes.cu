// problem: reduce_sum
// Wrong, but only at odd sizes: each thread adds a pair, and the last element of an odd number has no partner.
// A test at 1024 or 1,000,000 elements would never notice.
// assay: fill total value=0
// assay: launch add_pairs grid=(ceil_div(n, 512)) block=(256) args=(x, total, n)

__global__ void add_pairs(const float* x, float* total, int n)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    if (2 * pair + 1 < n) {
        sum = x[2 * pair] + x[2 * pair + 1];
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(total, sum);
    }
}
