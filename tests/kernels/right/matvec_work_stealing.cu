// problem: matvec
// assay: temp next int32 (1)
// assay: fill next value=0
// assay: launch matvec_steal grid=(48) block=(128) args=(a, x, y, m, k, next)
// style: warps draw rows from a counter by lane 0 and a broadcast; loops that end warp by warp, without a barrier
__global__ void matvec_steal(const float* a, const float* x, float* y, int m, int k, int* next)
{
    const int lane = threadIdx.x & 31;
    while (true) {
        int row = 0;
        if (lane == 0) row = atomicAdd(next, 1);
        row = __shfl_sync(0xffffffffu, row, 0);
        if (row >= m) break;
        float s = 0.0f;
        for (int j = lane; j < k; j += 32) s = fmaf(a[(size_t)row * k + j], x[j], s);
#pragma unroll
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
        if (lane == 0) y[row] = s;
    }
}
