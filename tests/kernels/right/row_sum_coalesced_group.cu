// problem: row_sum
// assay: launch row_sum_lanes grid=(ceil_div(rows, 4)) block=(128) args=(x, y, rows, cols)
// style: coalesced_threads() of the lanes that have a column at all: short rows reduce in a group of their own size
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void row_sum_lanes(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    if (lane < cols) {
        cg::coalesced_group present = cg::coalesced_threads();
        float s = 0.0f;
        for (int c = present.thread_rank(); c < cols; c += present.size()) s += x[(size_t)row * cols + c];
        for (unsigned n = present.size(); n > 1;) {
            const unsigned half = (n + 1) / 2;
            const float other = present.shfl_down(s, half);
            if (present.thread_rank() + half < n) s += other;
            n = half;
        }
        if (present.thread_rank() == 0) y[row] = s;
    }
}
