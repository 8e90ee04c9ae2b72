// problem: prefix_sum
// assay: temp ticket uint32 (1)
// assay: temp status uint32 (ceil_div(n, 1024))
// assay: temp aggregate float32 (ceil_div(n, 1024))
// assay: temp inclusive float32 (ceil_div(n, 1024))
// assay: fill ticket value=0
// assay: fill status value=0
// assay: launch scan_look_back grid=(ceil_div(n, 1024)) block=(256) args=(x, y, ticket, status, aggregate, inclusive, n)
// style: single-pass scan with decoupled look-back: dynamic tile numbers, a flag for each tile, one thread looks back
enum : unsigned { nothing = 0, has_aggregate = 1, has_prefix = 2 };

__global__ void scan_look_back(const float* x, float* y, unsigned* ticket, volatile unsigned* status,
                               volatile float* aggregate, volatile float* inclusive, int n)
{
    __shared__ unsigned tile_shared;
    __shared__ float warp_total[8];
    __shared__ float before_tile;
    if (threadIdx.x == 0) tile_shared = atomicAdd(ticket, 1u);
    __syncthreads();
    const unsigned tile = tile_shared;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int first = tile * 1024 + threadIdx.x * 4;
    float v[4];
    for (int k = 0; k < 4; ++k) v[k] = first + k < n ? x[first + k] : 0.0f;
    for (int k = 1; k < 4; ++k) v[k] += v[k - 1];
    float sum = v[3];
    for (int d = 1; d < 32; d *= 2) {
        const float other = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += other;
    }
    if (lane == 31) warp_total[warp] = sum;
    const float up = __shfl_up_sync(~0u, sum, 1);
    float before = lane ? up : 0.0f;
    __syncthreads();
    float all = 0.0f;
    for (int w = 0; w < 8; ++w) {
        if (w == warp) before += all;
        all += warp_total[w];
    }
    if (threadIdx.x == 0) {
        float prefix = 0.0f;
        if (tile > 0) {
            aggregate[tile] = all;
            __threadfence();
            status[tile] = has_aggregate;
            for (int look = (int)tile - 1;; --look) {
                unsigned seen;
                while ((seen = status[look]) == nothing) __nanosleep(20);
                __threadfence();
                if (seen == has_prefix) {
                    prefix += inclusive[look];
                    break;
                }
                prefix += aggregate[look];
            }
        }
        inclusive[tile] = prefix + all;
        __threadfence();
        status[tile] = has_prefix;
        before_tile = prefix;
    }
    __syncthreads();
    for (int k = 0; k < 4; ++k) {
        if (first + k < n) y[first + k] = v[k] + (before + before_tile);
    }
}
