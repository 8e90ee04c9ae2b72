// problem: prefix_sum
// assay: temp states uint64 (ceil_div(n, 512) + 96)
// assay: launch clear grid=(ceil_div(ceil_div(n, 512), 128)) block=(128) args=(states, ceil_div(n, 512))
// assay: launch scan grid=(ceil_div(n, 512)) block=(128) args=(x, y, states, n, ceil_div(n, 512))
// style: cub::ScanTileState and cub::TilePrefixCallbackOp, the library's own decoupled look-back, with cub::BlockScan
#include <cub/agent/single_pass_scan_operators.cuh>
#include <cub/block/block_scan.cuh>

using state_t = cub::ScanTileState<float>;
struct plus_t { __device__ float operator()(float a, float b) const { return a + b; } };
using prefix_t = cub::TilePrefixCallbackOp<float, plus_t, state_t>;
using scan_t = cub::BlockScan<float, 128, cub::BLOCK_SCAN_WARP_SCANS>;

__device__ state_t opened(unsigned long long* states, int tiles)
{
    state_t state;
    state.Init(tiles, states, (size_t)(tiles + 96) * 8);
    return state;
}

__global__ void clear(unsigned long long* states, int tiles) { opened(states, tiles).InitializeStatus(tiles); }

__global__ void __launch_bounds__(128) scan(const float* x, float* y, unsigned long long* states, int n, int tiles)
{
    __shared__ typename scan_t::TempStorage scan_room;
    __shared__ typename prefix_t::TempStorage prefix_room;
    state_t state = opened(states, tiles);
    const int tile = blockIdx.x, at = tile * 512 + threadIdx.x * 4;
    float v[4];
    for (int k = 0; k < 4; ++k) v[k] = at + k < n ? x[at + k] : 0.0f;
    if (tile == 0) {
        float all;
        scan_t(scan_room).InclusiveScan(v, v, plus_t(), all);
        if (threadIdx.x == 0) state.SetInclusive(0, all);
    } else {
        prefix_t prefix(state, prefix_room, plus_t(), tile);
        scan_t(scan_room).InclusiveScan(v, v, plus_t(), prefix);
    }
    for (int k = 0; k < 4; ++k)
        if (at + k < n) y[at + k] = v[k];
}
