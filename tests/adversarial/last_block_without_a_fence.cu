// problem: row_sum
// attack: the block that comes last adds up parts of rows that were stored without a fence before the counter
// expect: incorrect
// because: an atomic orders no other store; blocks see the parts when they please
// message: which it does not see
// assay: temp part float32 (rows * 4)
// assay: temp arrived uint32 (rows)
// assay: fill arrived value=0
// assay: launch parts grid=(rows * 4) block=(64) args=(x, part, arrived, y, cols)

__global__ void parts(const float* x, float* part, unsigned* arrived, float* y, int cols)
{
    __shared__ float sums[64];
    __shared__ bool last;
    int row = blockIdx.x / 4, quarter = blockIdx.x % 4;
    float sum = 0.0f;
    for (int i = quarter * 64 + threadIdx.x; i < cols; i += 256) sum += x[(size_t)row * cols + i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half >>= 1) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        part[row * 4 + quarter] = sums[0];
        last = atomicAdd(arrived + row, 1u) == 3;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) y[row] = part[row * 4] + part[row * 4 + 1] + part[row * 4 + 2] + part[row * 4 + 3];
}
