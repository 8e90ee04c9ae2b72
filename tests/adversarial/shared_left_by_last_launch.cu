// problem: row_sum
// attack: one launch leaves its sums in shared memory, the next hopes to find them there
// expect: incorrect
// because: shared memory holds no defined value at the start of a block
// assay: launch leave grid=(rows) block=(32) args=(x, cols)
// assay: launch find grid=(rows) block=(32) args=(y)

__global__ void leave(const float* x, int cols)
{
    volatile __shared__ float kept[32];
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) sum += x[(size_t)blockIdx.x * cols + c];
    for (int mask = 16; mask > 0; mask >>= 1) sum += __shfl_xor_sync(~0u, sum, mask);
    kept[threadIdx.x] = sum;
}

__global__ void find(float* y)
{
    volatile __shared__ float kept[32];
    if (threadIdx.x == 0) y[blockIdx.x] = kept[0];
}
