// problem: row_sum
// attack: writes partial sums where slower warps still read the first column's value
// expect: incorrect
// because: there is no barrier between the reads and the writes; in another order of the warps it is right
// assay: launch sums grid=(rows) block=(128) args=(x, y, cols)

__global__ void sums(const float* x, float* y, int cols)
{
    __shared__ float slots[4];
    x += (size_t)blockIdx.x * cols;
    if (threadIdx.x == 0) {
        slots[0] = x[0];
    }
    __syncthreads();
    const float first = slots[0];
    float sum = 0.0f;
    for (int col = threadIdx.x + 1; col < cols; col += 128) {
        sum += x[col];
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(~0u, sum, offset);
    }
    if (threadIdx.x % 32 == 0) {
        slots[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 32) {
        y[blockIdx.x] = first + slots[0] + slots[1] + slots[2] + slots[3];
    }
}
