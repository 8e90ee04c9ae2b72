// problem: row_sum
// style: one warp loads and one adds, and both meet at barrier 1 from places of their own, with the count of threads
// assay: launch sum_rows grid=(rows) block=(64) args=(x, y, rows, cols)

__device__ void meet() { asm volatile("bar.sync 1, 64;" ::: "memory"); }

__global__ void sum_rows(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32];
    const int lane = threadIdx.x % 32;
    float sum = 0.0f;
    if (threadIdx.x < 32) {
        for (int start = 0; start < cols; start += 32) {
            tile[lane] = start + lane < cols ? x[(size_t)blockIdx.x * cols + start + lane] : 0.0f;
            meet();
            asm volatile("bar.sync 1, 64;" ::: "memory");
        }
    } else {
        for (int start = 0; start < cols; start += 32) {
            meet();
            sum += tile[lane];
            meet();
        }
        for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
        if (lane == 0) y[blockIdx.x] = sum;
    }
}
