// problem: row_sum
// class: schedule
// race: divergence
// must: anything but passed
// why: a tile of 32 is made in front of a branch and shuffled down inside of it, where only the lanes below 16 come: a collective of the tile that not all of its members call, and values of lanes that have gone
// proof: cooperative_groups: collectives must be called by all threads of the group; a shuffle with lanes in its mask that do not come waits, or is undefined
// assay: launch rs grid=(rows) block=(32) args=(x, y, cols)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void rs(const float* x, float* y, int cols)
{
    const size_t row = blockIdx.x;
    auto all = cg::tiled_partition<32>(cg::this_thread_block());
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) s += x[row * cols + c];
    if (threadIdx.x < 16) {
        s += all.shfl_down(s, 16);
        for (int d = 8; d; d >>= 1) s += all.shfl_down(s, d);
        if (threadIdx.x == 0) y[row] = s;
    }
}
