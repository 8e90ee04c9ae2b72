// problem: matvec
// assay: launch matvec_tiles grid=(ceil_div(m, 16)) block=(128) args=(a, x, y, m, k)
// style: cooperative groups: tiles of eight lanes a row, float2 where k is even, cg::reduce with plus
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void matvec_tiles(const float* a, const float* x, float* y, int m, int k)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    const int row = blockIdx.x * 16 + tile.meta_group_rank();
    float s = 0.0f, s2 = 0.0f;
    if (row < m) {
        const float* p = a + (size_t)row * k;
        if (k % 2 == 0) {
            const float2* p2 = reinterpret_cast<const float2*>(p);
            const float2* x2 = reinterpret_cast<const float2*>(x);
            for (int j = tile.thread_rank(); j < k / 2; j += tile.size()) {
                const float2 u = p2[j], v = x2[j];
                s += u.x * v.x;
                s2 += u.y * v.y;
            }
        } else {
            for (int j = tile.thread_rank(); j < k; j += tile.size()) s += p[j] * x[j];
        }
    }
    s = cg::reduce(tile, s + s2, cg::plus<float>());
    if (row < m && tile.thread_rank() == 0) y[row] = s;
}
