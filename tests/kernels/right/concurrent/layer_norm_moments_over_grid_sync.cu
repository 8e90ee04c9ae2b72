// problem: layer_norm
// assay: temp moments float64 (rows * 2)
// assay: launch ln grid=(40) block=(256) cooperative args=(x, weight, bias, y, moments, eps, rows, cols)
// style: one cooperative launch: clear, sync, atomics of moments in double, sync, apply; any block any row
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void ln(const float* x, const float* weight, const float* bias, float* y, double* moments, float eps, int rows, int cols)
{
    const auto grid = cg::this_grid();
    const long long all = (long long)rows * cols;
    for (long long i = grid.thread_rank(); i < 2LL * rows; i += grid.size()) moments[i] = 0.0;
    grid.sync();
    for (long long piece = blockIdx.x * 8LL + threadIdx.x / 32; piece < rows * ((cols + 511LL) / 512); piece += gridDim.x * 8LL) {
        const long long row = piece % rows;
        const int from = (int)(piece / rows) * 512;
        double s = 0.0, q = 0.0;
        for (int c = from + threadIdx.x % 32; c < min(cols, from + 512); c += 32) {
            const double v = x[row * cols + c];
            s += v;
            q += v * v;
        }
        for (int d = 16; d; d >>= 1) {
            s += __shfl_down_sync(~0u, s, d);
            q += __shfl_down_sync(~0u, q, d);
        }
        if (threadIdx.x % 32 == 0) {
            atomicAdd(&moments[2 * row], s);
            atomicAdd(&moments[2 * row + 1], q);
        }
    }
    grid.sync();
    for (long long i = grid.thread_rank(); i < all; i += grid.size()) {
        const int row = (int)(i / cols), c = (int)(i % cols);
        const double mean = moments[2 * row] / cols, variance = fmax(moments[2 * row + 1] / cols - mean * mean, 0.0);
        y[i] = (float)((x[i] - mean) * rsqrt(variance + eps)) * weight[c] + bias[c];
    }
}
