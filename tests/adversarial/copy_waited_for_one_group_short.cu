// problem: scalar_multiply
// attack: two stages ahead, but the wait leaves one group too many under way
// expect: incorrect
// because: the group that is read may still be under way
// message: cp.async
// assay: launch scale grid=(min(ceil_div(n, 128), 4)) block=(128) args=(x, y, alpha, n)

__device__ void fetch(float* to, const float* from)
{
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(from) : "memory");
}

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    __shared__ float tiles[2][128];
    const int t = threadIdx.x, step = gridDim.x * 128;
    int i = blockIdx.x * 128 + t;
    if (i < n) fetch(&tiles[0][t], x + i);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int stage = 0; i < n; i += step, stage ^= 1) {
        if (n - i > step) fetch(&tiles[stage ^ 1][t], x + i + step);
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        y[i] = alpha * tiles[stage][t];
    }
}
