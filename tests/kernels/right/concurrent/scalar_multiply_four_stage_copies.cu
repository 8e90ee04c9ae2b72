// problem: scalar_multiply
// assay: launch staged grid=(min(ceil_div(n, 256), 512)) block=(64) args=(x, y, alpha, n)
// style: a pipeline of four stages of cp.async; wait_group 3, a thread reads its neighbour's copy behind a barrier
__global__ void staged(const float* x, float* y, float alpha, int n)
{
    __shared__ __align__(16) float stage[4][64];
    const int t = threadIdx.x, step = gridDim.x * 64;
    auto fetch = [&](int i, int s) {
        const unsigned to = (unsigned)__cvta_generic_to_shared(&stage[s & 3][t]);
        if (i + t < n) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(x + i + t) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    const int first = blockIdx.x * 64;
    for (int s = 0; s < 3; ++s) fetch(first + s * step, s);
    int s = 0;
    for (long long at = first; at < n; at += step, ++s) {
        if (at + 3LL * step < n) fetch((int)at + 3 * step, s + 3);
        else asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 3;" ::: "memory");
        __syncthreads();
        const int from = 63 - t;
        if (at + from < n) y[at + from] = alpha * stage[s & 3][from];
        __syncthreads();
    }
}
