// problem: relu
// class: schedule
// race: divergence
// must: anything but passed
// why: lane 0 takes room in the list and tells its warp through a volatile shared word, without __syncwarp(): others may read it before it is there
// proof: CUDA guide, independent thread scheduling: lanes of a warp are ordered by __syncwarp() only
// assay: launch relu grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)
// Positive elements are gathered in a list of the block; warps take room in it by one shared counter.
__global__ void relu(const float* x, float* y, int n)
{
    __shared__ int list[128], count;
    __shared__ volatile int room[4];
    const int t = threadIdx.x, lane = t % 32, i = blockIdx.x * 128 + t;
    if (t == 0) count = 0;
    __syncthreads();
    const float v = i < n ? x[i] : 0.0f;
    const unsigned some = __ballot_sync(~0u, v > 0.0f);
    if (lane == 0) room[t / 32] = atomicAdd(&count, __popc(some));
    if (v > 0.0f) list[room[t / 32] + __popc(some & ((1u << lane) - 1))] = t;
    if (i < n) y[i] = 0.0f;
    __syncthreads();
    for (int k = t; k < count; k += 128) {
        const int at = blockIdx.x * 128 + list[k];
        y[at] = x[at];
    }
}
