// problem: reduce_sum
// attack: adds every other element and doubles
// expect: incorrect
// because: inputs are not even in the mean
// assay: launch sum grid=(1) block=(32) args=(x, total, n)

__global__ void sum(const float* x, float* total, int n)
{
    float mine = 0.0f;
    for (int i = 2 * threadIdx.x; i < n; i += 64) mine += 2.0f * x[i];
    for (int offset = 16; offset > 0; offset >>= 1) mine += __shfl_down_sync(~0u, mine, offset);
    if (threadIdx.x == 0) *total = mine;
}
