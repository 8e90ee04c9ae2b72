// problem: histogram
// style: `coalesced_threads()` in a branch: the group's first lane adds for all that are there
// assay: fill counts value=0
// assay: launch count grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)

#include <cooperative_groups.h>

__global__ void count(const int* values, int* counts, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    for (int bin = 0; bin < 256; ++bin) {
        if (i < n && values[i] == bin) {
            auto here = cooperative_groups::coalesced_threads();
            if (here.thread_rank() == 0) atomicAdd(&counts[bin], (int)here.size());
        }
    }
}
