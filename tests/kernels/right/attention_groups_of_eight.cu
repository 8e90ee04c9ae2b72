// problem: attention
// assay: launch attend_tiles<8> grid=(ceil_div(seq, 16), heads) block=(128) args=(q, k, v, o, seq, dim)
// style: cooperative groups: eight lanes a query, strided over dim, sixteen values of the accumulator each, cg::reduce a key
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

template <int Lanes> __global__ void attend_tiles(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    auto tile = cg::tiled_partition<Lanes>(cg::this_thread_block());
    constexpr int Each = 128 / Lanes;
    const int i = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank(), lane = tile.thread_rank();
    if (i >= seq) return;
    const size_t head = (size_t)blockIdx.y * seq * dim;
    float query[Each], acc[Each];
#pragma unroll
    for (int e = 0; e < Each; ++e) {
        const int d = lane + e * Lanes;
        query[e] = d < dim ? q[head + (size_t)i * dim + d] : 0.0f;
        acc[e] = 0.0f;
    }
    float top = -INFINITY, sum = 0.0f;
    const float scale = 1.0f / sqrtf((float)dim);
    for (int j = 0; j < seq; ++j) {
        float s = 0.0f;
#pragma unroll
        for (int e = 0; e < Each; ++e)
            if (lane + e * Lanes < dim) s = fmaf(query[e], k[head + (size_t)j * dim + lane + e * Lanes], s);
        s = cg::reduce(tile, s, cg::plus<float>()) * scale;
        const float higher = fmaxf(top, s), down = expf(top - higher), p = expf(s - higher);
        top = higher;
        sum = fmaf(sum, down, p);
#pragma unroll
        for (int e = 0; e < Each; ++e)
            if (lane + e * Lanes < dim) acc[e] = fmaf(acc[e], down, p * v[head + (size_t)j * dim + lane + e * Lanes]);
    }
#pragma unroll
    for (int e = 0; e < Each; ++e)
        if (lane + e * Lanes < dim) o[head + (size_t)i * dim + lane + e * Lanes] = acc[e] / sum;
}
template __global__ void attend_tiles<8>(const float*, const float*, const float*, float*, int, int);
