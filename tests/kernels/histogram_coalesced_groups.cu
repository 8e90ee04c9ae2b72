// problem: histogram
// style: lanes with the same value form a group (labeled_partition), whose first member adds for all
// assay: launch clear grid=(1) block=(256) args=(counts)
// assay: launch count grid=(min(ceil_div(n, 256), 16)) block=(256) args=(values, counts, n)

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void clear(int* counts) { counts[threadIdx.x] = 0; }

__global__ void count(const int* values, int* counts, int n)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        auto active = cg::coalesced_threads();
        auto same = cg::labeled_partition(active, values[i]);
        if (same.thread_rank() == 0) atomicAdd(counts + values[i], (int)same.size());
    }
}
