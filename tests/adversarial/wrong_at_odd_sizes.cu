// problem: reduce_sum
// attack: a pairwise tree that drops the last element where the size is odd
// expect: incorrect
// because: hidden sizes are odd
// assay: fill total value=0
// assay: launch pairs grid=(ceil_div(n, 512)) block=(256) args=(x, total, n)

__global__ void pairs(const float* x, float* total, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) {
        atomicAdd(total, x[2 * i] + x[2 * i + 1]);
    }
}
