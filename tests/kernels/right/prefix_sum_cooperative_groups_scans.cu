// problem: prefix_sum
// style: cooperative groups' own inclusive_scan and exclusive_scan over tiles of 32, joined by a scan of the warps
// assay: temp part float32 (ceil_div(n, 512))
// assay: launch sums grid=(ceil_div(n, 512)) block=(128) args=(x, part, n)
// assay: launch top grid=(1) block=(32) args=(part, ceil_div(n, 512))
// assay: launch scans grid=(ceil_div(n, 512)) block=(128) args=(x, part, y, n)
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

__global__ void sums(const float* x, float* part, int n)
{
    __shared__ float s[4];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    float v = 0.0f;
    for (int k = 0; k < 4; ++k) {
        const int i = blockIdx.x * 512 + threadIdx.x * 4 + k;
        v += i < n ? x[i] : 0.0f;
    }
    v = cg::reduce(warp, v, cg::plus<float>());
    if (warp.thread_rank() == 0) s[warp.meta_group_rank()] = v;
    __syncthreads();
    if (threadIdx.x == 0) part[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
}

__global__ void top(float* part, int count)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    float carry = 0.0f;
    for (int first = 0; first < count; first += 32) {
        const int i = first + threadIdx.x;
        const float v = i < count ? part[i] : 0.0f;
        const float before = cg::exclusive_scan(warp, v, cg::plus<float>());
        if (i < count) part[i] = carry + before;
        carry += warp.shfl(before + v, 31);
    }
}

__global__ void scans(const float* x, const float* part, float* y, int n)
{
    __shared__ float s[4];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int i = blockIdx.x * 512 + threadIdx.x * 4;
    float v[4], run = 0.0f;
    for (int k = 0; k < 4; ++k) v[k] = run += i + k < n ? x[i + k] : 0.0f;
    const float up_to = cg::inclusive_scan(warp, run);
    if (warp.thread_rank() == 31) s[warp.meta_group_rank()] = up_to;
    __syncthreads();
    float before = part[blockIdx.x];
    for (int w = 0; w < (int)warp.meta_group_rank(); ++w) before += s[w];
    before += up_to - run;
    for (int k = 0; k < 4; ++k)
        if (i + k < n) y[i + k] = before + v[k];
}
