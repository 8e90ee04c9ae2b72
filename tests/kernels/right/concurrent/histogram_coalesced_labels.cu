// problem: histogram
// assay: fill counts value=0
// assay: launch hist grid=(ceil_div(n, 128)) block=(128) args=(values, counts, n)
// style: coalesced_threads() inside a branch and labeled_partition by the value; the group's first thread adds its size
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void hist(const int* values, int* counts, int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) {
        const int v = values[i];
        const auto together = cg::labeled_partition(cg::coalesced_threads(), v);
        if (together.thread_rank() == 0) atomicAdd(counts + v, (int)together.size());
    }
}
