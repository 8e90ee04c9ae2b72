// problem: saxpy
// style: copies its tiles to shared memory in the background, two stages ahead (cp.async)
// assay: launch saxpy grid=(min(ceil_div(n, 256), 528)) block=(256) args=(x, y, out, alpha, n)

__device__ void fetch(float* to, const float* from)
{
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(place), "l"(from) : "memory");
}

__global__ void saxpy(const float* x, const float* y, float* out, float alpha, int n)
{
    __shared__ float tiles[2][2][256];
    int step = gridDim.x * 256, t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    if (i < n) {
        fetch(&tiles[0][0][t], x + i);
        fetch(&tiles[0][1][t], y + i);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int stage = 0; i < n; i += step, stage ^= 1) {
        if (n - i > step) {
            fetch(&tiles[stage ^ 1][0][t], x + i + step);
            fetch(&tiles[stage ^ 1][1][t], y + i + step);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        out[i] = alpha * tiles[stage][0][t] + tiles[stage][1][t];
    }
}
