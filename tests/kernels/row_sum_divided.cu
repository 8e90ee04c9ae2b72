// problem: row_sum
// style: one thread an element, its row found by 64-bit division, rows met by atomics
// assay: fill y value=0
// assay: launch scatter_sum grid=(ceil_div(rows * cols, 256)) block=(256) args=(x, y, rows * cols, cols)

__global__ void scatter_sum(const float* x, float* y, long long count, long long cols)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned alive = __ballot_sync(0xffffffffu, i < count);
    if (i >= count) {
        return;
    }
    const long long row = i / cols;
    // Lanes of one row add up first: the leader of each row's run walks its followers.
    const unsigned peers = __match_any_sync(alive, row);
    const int lane = threadIdx.x & 31;
    float sum = 0.0f;
    for (unsigned left = peers; left != 0; left &= left - 1) {
        sum += __shfl_sync(peers, x[i], __ffs(left) - 1);
    }
    if (lane == __ffs(peers) - 1) {
        atomicAdd(&y[row], sum);
    }
}
