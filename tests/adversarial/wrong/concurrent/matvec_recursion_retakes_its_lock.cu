// problem: matvec
// class: schedule
// race: lock
// must: anything but passed
// why: a recursive tree sum takes the row's lock in each call, and the inner calls run while the outer one holds it: a spin lock is not reentrant
// proof: the thread that waits is the one that would free; at k > 64 the recursion is two deep
// assay: temp lock int32 (m)
// assay: fill lock value=0
// assay: fill y value=0
// assay: launch mv grid=(ceil_div(m, 64)) block=(64) args=(a, x, y, lock, m, k)
__device__ __noinline__ void add(const float* a, const float* x, float* y, int* lock, int from, int to)
{
    while (atomicCAS(lock, 0, 1)) { }
    __threadfence();
    if (to - from <= 64) {
        float s = 0.0f;
        for (int i = from; i < to; ++i) s += a[i] * x[i];
        *y += s;
    } else {
        const int middle = (from + to) / 2;
        add(a, x, y, lock, from, middle);
        add(a, x, y, lock, middle, to);
    }
    __threadfence();
    atomicExch(lock, 0);
}

__global__ void mv(const float* a, const float* x, float* y, int* lock, int m, int k)
{
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row < m) add(a + (size_t)row * k, x, y + row, lock + row, 0, k);
}
