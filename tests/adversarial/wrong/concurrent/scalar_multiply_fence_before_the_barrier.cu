// problem: scalar_multiply
// class: schedule
// race: fence
// must: anything but passed
// why: only thread 0 fences, and it does so before the barrier: what the other threads stored is not behind its fence when it raises the flag
// proof: PTX: a fence is cumulative over what was ordered before it; the others' stores come to thread 0 with the barrier, after the fence
// assay: temp ticket uint32 (1)
// assay: temp room float32 (n)
// assay: temp flags uint32 (ceil_div(n, 128))
// assay: fill ticket value=0
// assay: fill flags value=0
// assay: launch hand_over grid=(2 * ceil_div(n, 128)) block=(128) args=(x, y, alpha, n, room, flags, ticket)

__global__ void hand_over(const float* x, float* y, float alpha, int n, float* room, unsigned* flags, unsigned* ticket)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicInc(ticket, 0xffffffffu);
    __syncthreads();
    const int tile = drawn >> 1, i = tile * 128 + threadIdx.x;
    if (drawn & 1) {
        if (threadIdx.x == 0) {
            while (atomicAdd(&flags[tile], 0u) == 0) __nanosleep(10);
            __threadfence();
        }
        __syncthreads();
        if (i < n) y[i] = room[i];
    } else {
        if (i < n) room[i] = alpha * x[i];
        if (threadIdx.x == 0) __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) atomicExch(&flags[tile], 1u);
    }
}
