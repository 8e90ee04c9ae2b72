// problem: conv2d
// assay: temp turned float32 (9 * in_channels * out_channels)
// assay: launch conv grid=(40) block=(192) cooperative args=(x, weight, y, turned, batch, in_channels, out_channels, height, width)
// style: cooperative: all blocks turn the weights round in a temporary, grid.sync(), then each output reads them coalesced
#include <cooperative_groups.h>

__global__ void conv(const float* x, const float* weight, float* y, float* turned, int batch, int ci, int co, int h, int w)
{
    const long long first = blockIdx.x * 192LL + threadIdx.x, step = gridDim.x * 192LL;
    for (long long e = first; e < 9LL * ci * co; e += step) {
        const long long o = e % co, rest = e / co;
        turned[e] = weight[o * 9 * ci + rest];
    }
    cooperative_groups::this_grid().sync();
    const long long outputs = (long long)batch * co * h * w;
    for (long long e = first; e < outputs; e += step) {
        const int o = (int)(e % co);
        const long long at = e / co;
        const int c = (int)(at % w), r = (int)(at / w % h);
        const long long b = at / w / h;
        float s = 0.0f;
        for (int i = 0; i < ci; ++i)
            for (int k = 0; k < 9; ++k) {
                const int rr = r + k / 3 - 1, cc = c + k % 3 - 1;
                if (rr >= 0 && rr < h && cc >= 0 && cc < w) s += x[((b * ci + i) * h + rr) * w + cc] * turned[(i * 9LL + k) * co + o];
            }
        y[((b * co + o) * h + r) * w + c] = s;
    }
}
