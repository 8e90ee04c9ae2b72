// problem: reduce_sum
// attack: each block adds its sum to the total without an atomic, which is right wherever blocks run one by one
// expect: incorrect
// because: two blocks that read the total at the same time lose one of the two sums
// message: race
// assay: fill total value=0
// assay: launch sum grid=(ceil_div(n, 1024)) block=(32) args=(x, total, n)

__global__ void sum(const float* x, float* total, int n)
{
    float mine = 0.0f;
    for (int i = 0; i < 32; ++i) {
        const int at = blockIdx.x * 1024 + i * 32 + threadIdx.x;
        if (at < n) mine += x[at];
    }
    for (int mask = 16; mask > 0; mask >>= 1) mine += __shfl_xor_sync(~0u, mine, mask);
    if (threadIdx.x == 0) *total += mine;
}
