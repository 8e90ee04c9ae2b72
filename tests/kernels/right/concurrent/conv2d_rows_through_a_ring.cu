// problem: conv2d
// assay: launch conv grid=(ceil_div(width, 62), batch * out_channels) block=(96) args=(x, weight, y, in_channels, out_channels, height, width)
// style: one warp brings rows into a ring of two, two warps use them: full and empty cuda::barrier, arrive and wait apart
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void conv(const float* x, const float* weight, float* y, int ci, int co, int h, int w)
{
    __shared__ float ring[2][3][64];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier full[2], empty[2];
    if (threadIdx.x < 2) {
        init(&full[threadIdx.x], 96);
        init(&empty[threadIdx.x], 96);
    }
    __syncthreads();
    const int b = blockIdx.y / co, o = blockIdx.y % co, c0 = blockIdx.x * 62 - 1;
    const long long steps = (long long)h * ci;
    if (threadIdx.x < 32) {
        for (long long s = 0; s < steps; ++s) {
            const int i = (int)(s % ci), r = (int)(s / ci), slot = (int)(s & 1);
            empty[slot].arrive_and_wait();
            for (int e = threadIdx.x; e < 192; e += 32) {
                const int rr = r + e / 64 - 1, cc = c0 + e % 64;
                ring[slot][e / 64][e % 64] = rr >= 0 && rr < h && cc >= 0 && cc < w ? x[(((size_t)b * ci + i) * h + rr) * w + cc] : 0.0f;
            }
            (void)full[slot].arrive();
        }
    } else {
        (void)empty[0].arrive();
        (void)empty[1].arrive();
        const int lane = threadIdx.x - 32, c = blockIdx.x * 62 + lane;
        float sum = 0.0f;
        for (long long s = 0; s < steps; ++s) {
            const int i = (int)(s % ci), r = (int)(s / ci), slot = (int)(s & 1);
            full[slot].arrive_and_wait();
            if (i == 0) sum = 0.0f;
            if (lane < 62)
                for (int k = 0; k < 9; ++k) sum += ring[slot][k / 3][lane + k % 3] * weight[((size_t)o * ci + i) * 9 + k];
            (void)empty[slot].arrive();
            if (i == ci - 1 && lane < 62 && c < w) y[(((size_t)b * co + o) * h + r) * w + c] = sum;
        }
    }
}
