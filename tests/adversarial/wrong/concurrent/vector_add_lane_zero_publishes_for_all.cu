// problem: vector_add
// class: schedule
// race: divergence
// must: anything but passed
// why: lane 0 releases the flag of its warp, but without __syncwarp(): its release covers what it has stored itself, and not the other lanes
// proof: PTX: a release is cumulative over what has been observed; lanes of a warp are ordered by bar.warp.sync only
// assay: temp room float32 (n)
// assay: temp flags uint32 (ceil_div(n, 32))
// assay: temp ticket uint32 (1)
// assay: fill flags value=0
// assay: fill ticket value=0
// assay: launch add grid=(2 * ceil_div(n, 128)) block=(128) args=(a, b, c, n, room, flags, ticket)
#include <cuda/atomic>
using flag_ref = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

__global__ void add(const float* a, const float* b, float* c, int n, float* room, unsigned* flags, unsigned* ticket)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int i = (drawn / 2) * 128 + threadIdx.x, lane = threadIdx.x % 32;
    if (i - lane >= n) return;
    if (drawn % 2 == 0) {
        if (i < n) room[i] = a[i];
        if (lane == 0) flag_ref(flags[i / 32]).store(1u, cuda::memory_order_release);
    } else {
        while (!flag_ref(flags[i / 32]).load(cuda::memory_order_acquire)) __nanosleep(32);
        if (i < n) c[i] = room[i] + b[i];
    }
}
