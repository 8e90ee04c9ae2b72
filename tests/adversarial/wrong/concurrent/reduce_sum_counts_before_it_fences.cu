// problem: reduce_sum
// class: schedule
// race: last block
// must: anything but passed
// why: the fence stands between the counter and the reads, none between the partial sum and the counter: a block may count as done before others can see its sum
// proof: CUDA guide, the example of __threadfence(): without it before the counter the last block may read a partial sum before it is stored
// assay: temp part float32 (96)
// assay: temp count uint32 (1)
// assay: fill count value=0
// assay: launch sum grid=(96) block=(96) args=(x, part, count, total, n)
#include <cub/block/block_reduce.cuh>

__global__ void __launch_bounds__(96) sum(const float* x, float* part, unsigned* count, float* total, int n)
{
    using Reduce = cub::BlockReduce<float, 96>;
    __shared__ Reduce::TempStorage room;
    __shared__ bool last;
    float s = 0.0f;
    for (int i = blockIdx.x * 96 + threadIdx.x; i < n; i += 96 * 96) s += x[i];
    s = Reduce(room).Sum(s);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = s;
        last = atomicInc(count, 95u) == 95u;
        __threadfence();
    }
    __syncthreads();
    if (last) {
        s = Reduce(room).Sum(part[threadIdx.x]);
        if (threadIdx.x == 0) *total = s;
    }
}
