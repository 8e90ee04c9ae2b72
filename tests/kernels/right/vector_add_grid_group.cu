// problem: vector_add
// assay: launch add grid=(64) block=(256) cooperative args=(a, b, c, n)
// style: cooperative groups for ranks only: this_grid() counts threads, a cooperative launch of 64 blocks
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void add(float const* a, float const* b, float* c, int n)
{
    auto grid = cg::this_grid();
    for (auto i = grid.thread_rank(); i < static_cast<unsigned long long>(n); i += grid.size()) {
        c[i] = a[i] + b[i];
    }
}
