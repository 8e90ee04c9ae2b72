// problem: row_sum
// style: blocks of a multiprocessor take rows of its own share first, then those of others
// assay: temp taken int32 (8)
// assay: fill taken value=0
// assay: launch row_sum grid=(24) block=(32) args=(x, y, taken, rows, cols)

__global__ void row_sum(const float* x, float* y, int* taken, int rows, int cols)
{
    unsigned start;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(start));
    __shared__ int row;
    for (int turn = 0; turn < 8; turn++) {
        int share = (start + turn) % 8, first = (int)((long long)rows * share / 8);
        int beyond = (int)((long long)rows * (share + 1) / 8);
        for (;;) {
            if (threadIdx.x == 0) row = first + atomicAdd(&taken[share], 1);
            __syncthreads();
            int mine = row;
            __syncthreads();
            if (mine >= beyond) break;
            float sum = 0.0f;
            for (int i = threadIdx.x; i < cols; i += 32) sum += x[(size_t)mine * cols + i];
            for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
            if (threadIdx.x == 0) y[mine] = sum;
        }
    }
}
