// problem: vector_add
// class: schedule
// race: fence
// must: anything but passed
// why: asm volatile("" ::: "memory"), a fence for the compiler only, stands where __threadfence() belongs, on both sides of the flag
// proof: no instruction comes of it; PTX leaves plain accesses around a volatile one unordered for other threads
// assay: temp ticket uint32 (1)
// assay: temp sums float32 (n)
// assay: temp flags uint32 (ceil_div(n, 64))
// assay: fill ticket value=0
// assay: fill flags value=0
// assay: launch add grid=(2 * ceil_div(n, 64)) block=(64) args=(a, b, c, n, sums, flags, ticket)
#define barrier() asm volatile("" ::: "memory")
#define READ_ONCE(v) (*(const volatile unsigned*)&(v))
#define WRITE_ONCE(v, w) (*(volatile unsigned*)&(v) = (w))

__global__ void add(const float* a, const float* b, float* c, int n, float* sums, unsigned* flags, unsigned* ticket)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const unsigned tile = drawn / 2;
    const int i = tile * 64 + threadIdx.x;
    if (drawn % 2 == 0) {
        if (i < n) sums[i] = a[i] + b[i];
        barrier();
        __syncthreads();
        if (threadIdx.x == 0) WRITE_ONCE(flags[tile], 1u);
    } else {
        while (!READ_ONCE(flags[tile])) { }
        barrier();
        if (i < n) c[i] = sums[i];
    }
}
