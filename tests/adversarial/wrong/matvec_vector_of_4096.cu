// problem: matvec
// class: sizes
// must: anything but passed
// why: x is staged once in 16 KB of shared memory; what lies beyond 4,096 elements (the longest published k, and the timed one) is left out of the sum
// proof: assay grade --size m=8 --size k=4100 refuses it
// assay: launch gemv grid=(ceil_div(m, 4)) block=(32, 4) args=(a, x, y, m, k)
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

constexpr int kMaxK = 4096;

__global__ void gemv(const float* a, const float* x, float* y, int m, int k)
{
    __shared__ float xs[kMaxK];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    const int depth = min(k, kMaxK);
    for (int i = block.thread_rank(); i < depth; i += block.size()) xs[i] = x[i];
    block.sync();
    const int row = blockIdx.x * 4 + threadIdx.y;
    if (row < m) {
        float acc = 0.f;
        for (int i = warp.thread_rank(); i < depth; i += 32) acc = fmaf(a[(size_t)row * k + i], xs[i], acc);
        acc = cg::reduce(warp, acc, cg::plus<float>());
        if (warp.thread_rank() == 0) y[row] = acc;
    }
}
