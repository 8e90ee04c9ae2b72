// problem: histogram
// style: binary_partition by the value's bits, one after the other, until each group's lanes agree in all eight
// assay: fill counts value=0
// assay: launch count grid=(ceil_div(n, 128)) block=(128) args=(values, counts, n)

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

template <int BIT> __device__ void split(const cg::coalesced_group& group, int value, int* counts)
{
    if constexpr (BIT < 8) {
        split<BIT + 1>(cg::binary_partition(group, (value >> BIT & 1) != 0), value, counts);
    } else {
        const bool alike = group.all(group.shfl(value, 0) == value);
        if (alike && group.thread_rank() == group.size() - 1) atomicAdd(counts + value, (int)group.size());
    }
}

__global__ void count(const int* values, int* counts, int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) split<0>(cg::coalesced_threads(), values[i], counts);
}
