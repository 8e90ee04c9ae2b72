// problem: matmul
// class: schedule
// race: fence
// must: anything but passed
// why: slices of the depth add to c in turn; the turn is a volatile int, read and written without fences, so the next slice may add to an old c, read through a stale line too
// proof: CUTLASS's semaphore has ld.acquire and red.release here; volatile orders no other accesses
// assay: temp turn int32 (ceil_div(m, 16) * ceil_div(n, 16))
// assay: temp ticket uint32 (1)
// assay: fill turn value=0
// assay: fill ticket value=0
// assay: fill c value=0
// assay: launch mm grid=(3 * ceil_div(m, 16) * ceil_div(n, 16)) block=(16, 16) args=(a, b, c, turn, ticket, m, n, k)

__global__ void mm(const float* a, const float* b, float* c, volatile int* turn, unsigned* ticket, int m, int n, int k)
{
    __shared__ unsigned drawn;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (tx + ty == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int tile = drawn / 3, slice = drawn % 3, across = (n + 15) / 16, deep = (k + 2) / 3;
    const int row = tile / across * 16 + ty, col = tile % across * 16 + tx, begin = min(k, slice * deep), end = min(k, begin + deep);
    const bool here = row < m && col < n;
    float s = 0.0f;
    for (int l = begin; here && l < end; ++l) s += a[(size_t)row * k + l] * b[(size_t)l * n + col];
    if (tx + ty == 0)
        while (turn[tile] != slice) { }
    __syncthreads();
    if (here) c[(size_t)row * n + col] += s;
    __syncthreads();
    if (tx + ty == 0) turn[tile] = slice + 1;
}
