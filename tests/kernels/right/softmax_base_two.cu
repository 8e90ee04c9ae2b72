// problem: softmax
// assay: launch softmax_exp2 grid=(rows) block=(192) args=(x, y, cols)
// style: exp2f on differences times log2(e) with fmaf's remainder, cooperative groups' reduce in each of six warps
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__device__ float exp_by_two(float d)
{
    const float hi = d * 1.44269502f;
    const float lo = fmaf(d, 1.44269502f, -hi) + d * 1.92596299e-8f;
    return exp2f(hi) * fmaf(lo, 0.693147181f, 1.0f);
}

__global__ void softmax_exp2(const float* x, float* y, int cols)
{
    __shared__ float of_warp[6];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    const float* in = x + size_t(blockIdx.x) * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int c = block.thread_rank(); c < cols; c += block.size()) top = max(top, in[c]);
    top = cg::reduce(warp, top, cg::greater<float>());
    if (warp.thread_rank() == 0) of_warp[warp.meta_group_rank()] = top;
    block.sync();
    for (float t : of_warp) top = max(top, t);
    for (int c = block.thread_rank(); c < cols; c += block.size()) sum += exp_by_two(in[c] - top);
    sum = cg::reduce(warp, sum, cg::plus<float>());
    block.sync();
    if (warp.thread_rank() == 0) of_warp[warp.meta_group_rank()] = sum;
    block.sync();
    sum = 0.0f;
    for (float s : of_warp) sum += s;
    for (int c = block.thread_rank(); c < cols; c += block.size()) y[size_t(blockIdx.x) * cols + c] = exp_by_two(in[c] - top) / sum;
}
