// problem: vector_add
// assay: launch add_roles grid=(min(ceil_div(n, 128), 264)) block=(256) args=(a, b, c, n)
// style: roles by warp: two slots of a ring, each with a full and an empty named barrier (bar.sync and bar.arrive, ids 1 to 4)
#define SYNC(id) asm volatile("barrier.cta.sync %0, 256;" ::"r"(id) : "memory")
#define ARRIVE(id) asm volatile("barrier.cta.arrive %0, 256;" ::"r"(id) : "memory")
enum { FULL = 1, EMPTY = 3 };

__global__ void __launch_bounds__(256) add_roles(const float* a, const float* b, float* c, int n)
{
    __shared__ float2 ring[2][128];
    const int lane = threadIdx.x % 128, tiles = (n + 127) / 128;
    const int mine = (tiles - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    if (threadIdx.x < 128) {
        for (int s = 0; s < mine; ++s) {
            const int i = (blockIdx.x + s * gridDim.x) * 128 + lane;
            if (s >= 2) SYNC(EMPTY + s % 2);
            ring[s % 2][lane] = i < n ? make_float2(a[i], b[i]) : make_float2(0.f, 0.f);
            ARRIVE(FULL + s % 2);
        }
    } else {
        for (int s = 0; s < mine; ++s) {
            const int other = 127 - lane, i = (blockIdx.x + s * gridDim.x) * 128 + other;
            SYNC(FULL + s % 2);
            const float2 v = ring[s % 2][other];
            if (s + 2 < mine) ARRIVE(EMPTY + s % 2);
            if (i < n) c[i] = v.x + v.y;
        }
    }
}
