// problem: histogram
// style: labeled_partition and cg::reduce: the groups of one warp reduce at once, each with a mask of its own
// assay: fill counts value=0
// assay: launch count grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void count(const int* values, int* counts, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    auto active = cg::coalesced_threads();
    auto same = cg::labeled_partition(active, values[i]);
    const int size = cg::reduce(same, 1, cg::plus<int>());
    if (same.thread_rank() == 0) atomicAdd(&counts[values[i]], size);
}
