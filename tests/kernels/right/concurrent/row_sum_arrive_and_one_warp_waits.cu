// problem: row_sum
// assay: launch one_waits grid=(ceil_div(rows, 2)) block=(256) args=(x, y, rows, cols)
// style: seven warps bar.arrive and leave, warp 0 bar.syncs and adds; two rows a block, a barrier for each
__global__ void one_waits(const float* x, float* y, int rows, int cols)
{
    __shared__ float sums[2][8];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    for (int r = 0; r < 2; ++r) {
        const int row = blockIdx.x * 2 + r;
        if (row >= rows) break;
        float s = 0.0f;
        for (int c = threadIdx.x; c < cols; c += 256) s += x[(size_t)row * cols + c];
        s += __shfl_xor_sync(~0u, s, 16);
        s += __shfl_xor_sync(~0u, s, 8);
        s += __shfl_xor_sync(~0u, s, 4);
        s += __shfl_xor_sync(~0u, s, 2);
        s += __shfl_xor_sync(~0u, s, 1);
        if (lane == 0) sums[r][warp] = s;
        __syncwarp();  // what lane 0 wrote is ordered before the whole warp's arrival
        if (warp) {
            asm volatile("bar.arrive %0, 256;" ::"r"(r + 1) : "memory");
        } else {
            asm volatile("bar.sync %0, 256;" ::"r"(r + 1) : "memory");
            if (lane == 0) {
                float t = 0.0f;
                for (int w = 0; w < 8; ++w) t += sums[r][w];
                y[row] = t;
            }
        }
    }
}
