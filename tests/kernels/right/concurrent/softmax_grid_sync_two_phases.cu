// problem: softmax
// assay: temp states float32 (rows * 8)
// assay: launch sm grid=(4, 16) block=(128) cooperative args=(x, y, states, rows, cols)
// style: four blocks a row, cooperative: maxima and sums meet in global memory over grid.sync() once for all rows
#include <cooperative_groups.h>

__global__ void sm(const float* x, float* y, float2* states, int rows, int cols)
{
    __shared__ float2 warps[4];
    const int p = blockIdx.x, t = threadIdx.x;
    for (int r = blockIdx.y; r < rows; r += 16) {
        const float* in = x + (size_t)r * cols;
        float m = -INFINITY, s = 0.0f;
        for (int c = p * 128 + t; c < cols; c += 512) {
            const float v = in[c];
            if (v > m) {
                s = s * expf(m - v) + 1.0f;
                m = v;
            } else {
                s += expf(v - m);
            }
        }
        for (int d = 16; d; d >>= 1) {
            const float om = __shfl_xor_sync(~0u, m, d), os = __shfl_xor_sync(~0u, s, d), top = fmaxf(m, om);
            s = (s > 0 ? s * expf(m - top) : 0) + (os > 0 ? os * expf(om - top) : 0);
            m = top;
        }
        if (t % 32 == 0) warps[t / 32] = make_float2(m, s);
        __syncthreads();
        if (t == 0) {
            for (int w = 1; w < 4; ++w) {
                const float top = fmaxf(m, warps[w].x);
                s = (s > 0 ? s * expf(m - top) : 0) + (warps[w].y > 0 ? warps[w].y * expf(warps[w].x - top) : 0);
                m = top;
            }
            states[(size_t)r * 4 + p] = make_float2(m, s);
        }
        __syncthreads();
    }
    cooperative_groups::this_grid().sync();
    for (int r = blockIdx.y; r < rows; r += 16) {
        float m = -INFINITY, s = 0.0f;
        for (int q = 0; q < 4; ++q) m = fmaxf(m, states[(size_t)r * 4 + q].x);
        for (int q = 0; q < 4; ++q)
            if (states[(size_t)r * 4 + q].y > 0) s += states[(size_t)r * 4 + q].y * expf(states[(size_t)r * 4 + q].x - m);
        for (int c = p * 128 + t; c < cols; c += 512) y[(size_t)r * cols + c] = expf(x[(size_t)r * cols + c] - m) / s;
    }
}
