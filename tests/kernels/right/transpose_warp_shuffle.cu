// problem: transpose
// assay: launch transpose_shfl grid=(ceil_div(cols, 32), ceil_div(rows, 128)) block=(32, 4) args=(x, y, rows, cols)
// style: no shared memory: a warp turns 32 by 32 values in registers, by exchange of halves in five rounds of shuffles
__global__ void transpose_shfl(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    const int lane = threadIdx.x;
    const int r0 = (blockIdx.y * 4 + threadIdx.y) * 32, c0 = blockIdx.x * 32;
    if (r0 >= rows) return;
    float v[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        v[i] = r0 + i < rows && c0 + lane < cols ? x[(size_t)(r0 + i) * cols + c0 + lane] : 0.0f;
    }
#pragma unroll
    for (int bit = 1; bit < 32; bit *= 2) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            if (i & bit) continue;
            const bool upper = lane & bit;
            const float give = upper ? v[i] : v[i | bit];
            const float got = __shfl_xor_sync(0xffffffffu, give, bit);
            if (upper) v[i] = got;
            else v[i | bit] = got;
        }
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        if (c0 + i < cols && r0 + lane < rows) y[(size_t)(c0 + i) * rows + r0 + lane] = v[i];
    }
}
