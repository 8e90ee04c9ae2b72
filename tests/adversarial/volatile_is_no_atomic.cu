// problem: reduce_sum
// attack: each block reads the total, adds its sum and writes it back, all through volatile
// expect: incorrect
// because: volatile makes a read and a write strong, not one step: updates of other blocks are lost
// message: so that is lost
// assay: fill total value=0
// assay: launch sum grid=(ceil_div(n, 2048)) block=(32) args=(x, total, n)

__global__ void sum(const float* x, float* total, int n)
{
    float mine = 0.0f;
    for (int i = blockIdx.x * 2048 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 2048); i += 32) mine += x[i];
    for (int step = 16; step > 0; step >>= 1) mine += __shfl_xor_sync(~0u, mine, step);
    volatile float* all = total;
    if (threadIdx.x == 0) *all = *all + mine;
}
