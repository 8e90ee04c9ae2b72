// problem: matvec
// assay: launch mv grid=(ceil_div(m, 8)) block=(128) args=(a, x, y, m, k)
// style: half-warps go two ways, each shuffles and syncs with its own 16 lanes, then the whole warp meets in shared memory
__global__ void mv(const float* a, const float* x, float* y, int m, int k)
{
    __shared__ float both[4][2];
    const int w = threadIdx.x >> 5, lane = threadIdx.x & 31, l = lane & 15;
    for (int r = 0; r < 2; ++r) {
        const int row = blockIdx.x * 8 + w * 2 + r;
        if (row >= m) break;
        const float* in = a + (size_t)row * k;
        float s = 0.0f;
        if (lane < 16) {
            for (int j = 2 * l; j < k; j += 32) s += in[j] * x[j];
            for (int d = 8; d; d >>= 1) s += __shfl_xor_sync(0x0000ffffu, s, d);
        } else {
            for (int j = 2 * l + 1; j < k; j += 32) s += in[j] * x[j];
            for (int d = 8; d; d >>= 1) s += __shfl_xor_sync(0xffff0000u, s, d);
        }
        if (l == 0) both[w][lane >> 4] = s;
        __syncwarp();
        if (lane == 31) y[row] = both[w][0] + both[w][1];
        __syncwarp();
    }
}
