// problem: layer_norm
// assay: temp want int32 (rows * 2)
// assay: temp turn int32 (rows)
// assay: temp moments float64 (rows * 2)
// assay: fill want value=0
// assay: fill turn value=0
// assay: fill moments value=0
// assay: launch halves grid=(rows, 2) block=(128) args=(x, want, turn, moments, cols)
// assay: launch apply grid=(rows) block=(128) args=(x, weight, bias, moments, y, eps, cols)
// style: two blocks a row exclude each other by Peterson's algorithm: sequentially consistent cuda::atomic_ref
#include <cuda/atomic>
using word = cuda::atomic_ref<int, cuda::thread_scope_device>;

__global__ void halves(const float* x, int* want, int* turn, double* moments, int cols)
{
    __shared__ double sums[4], squares[4];
    const int row = blockIdx.x, me = blockIdx.y;
    double s = 0.0, q = 0.0;
    for (int c = me * 128 + threadIdx.x; c < cols; c += 256) {
        const double v = x[(size_t)row * cols + c];
        s += v;
        q += v * v;
    }
    for (int d = 16; d; d >>= 1) {
        s += __shfl_down_sync(~0u, s, d);
        q += __shfl_down_sync(~0u, q, d);
    }
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = s;
        squares[threadIdx.x / 32] = q;
    }
    __syncthreads();
    if (threadIdx.x) return;
    word mine(want[2 * row + me]), theirs(want[2 * row + 1 - me]), next(turn[row]);
    mine.store(1, cuda::memory_order_seq_cst);
    next.store(1 - me, cuda::memory_order_seq_cst);
    while (theirs.load(cuda::memory_order_seq_cst) && next.load(cuda::memory_order_seq_cst) == 1 - me) __nanosleep(20);
    for (int w = 0; w < 4; ++w) {
        moments[2 * row] += sums[w];
        moments[2 * row + 1] += squares[w];
    }
    mine.store(0, cuda::memory_order_seq_cst);
}

__global__ void apply(const float* x, const float* weight, const float* bias, const double* moments, float* y, float eps, int cols)
{
    const size_t row = blockIdx.x;
    const double mean = moments[2 * row] / cols, variance = fmax(moments[2 * row + 1] / cols - mean * mean, 0.0);
    const double inverse = rsqrt(variance + eps);
    for (int c = threadIdx.x; c < cols; c += 128) y[row * cols + c] = (float)((x[row * cols + c] - mean) * inverse) * weight[c] + bias[c];
}
