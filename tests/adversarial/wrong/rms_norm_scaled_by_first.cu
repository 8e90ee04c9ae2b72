// problem: rms_norm
// class: contents
// must: anything but passed
// why: squares are taken of x / x[0], against overflow: where the first element of a row is much smaller than the others the squares overflow, and the row becomes 0
// proof: a row whose first element is 1e-15 and whose others are 1e6 (sums of squares do not overflow): y is 0 instead of about weight
// assay: launch rms grid=(rows) block=(128) args=(x, weight, y, eps, cols)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void rms(const float* x, const float* weight, float* y, float eps, int cols)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    __shared__ float parts[4];
    const float* in = x + (size_t)block.group_index().x * cols;
    const float unit = in[0] != 0.f ? fabsf(in[0]) : 1.f;
    float s = 0.f;
    for (int c = block.thread_rank(); c < cols; c += block.size()) {
        const float v = in[c] / unit;
        s += v * v;
    }
    for (int o = warp.size() / 2; o; o /= 2) s += warp.shfl_down(s, o);
    if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = s;
    block.sync();
    s = parts[0] + parts[1] + parts[2] + parts[3];
    // eps in the same unit
    const float r = 1.f / sqrtf(s / cols + eps / unit / unit);
    for (int c = block.thread_rank(); c < cols; c += block.size())
        y[(size_t)block.group_index().x * cols + c] = in[c] / unit * r * weight[c];
}
