// problem: softmax
// class: schedule
// race: mask
// must: anything but passed
// why: 16 lanes share a row, but they are made two tiles of eight by tiled_partition<8>, whose sync meets eight lanes only: the other eight's maxima and sums in shared memory may not be there
// proof: cooperative_groups, tile.sync() synchronises the threads of the tile, here half of those that exchange values
// assay: launch sm grid=(ceil_div(rows, 4)) block=(64) args=(x, y, rows, cols)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void sm(const float* x, float* y, int rows, int cols)
{
    __shared__ float tops[4][16], sums[4][16];
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    const int team = threadIdx.x / 16, me = threadIdx.x % 16, row = blockIdx.x * 4 + team;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float top = -3.4e38f, sum = 0.0f;
    for (int c = me; c < cols; c += 16) {
        const float higher = fmaxf(top, in[c]);
        sum = sum * expf(top - higher) + expf(in[c] - higher);
        top = higher;
    }
    tops[team][me] = top;
    sums[team][me] = sum;
    tile.sync();
    float all = -3.4e38f, total = 0.0f;
    for (int i = 0; i < 16; ++i) all = fmaxf(all, tops[team][i]);
    for (int i = 0; i < 16; ++i) total += sums[team][i] * expf(tops[team][i] - all);
    for (int c = me; c < cols; c += 16) y[(size_t)row * cols + c] = expf(in[c] - all) / total;
}
