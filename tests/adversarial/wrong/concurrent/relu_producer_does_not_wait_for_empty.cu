// problem: relu
// class: schedule
// race: barrier
// must: anything but passed
// why: each of four warps fills a ring of four for a partner and counts what it has filled (red.release); nobody tells it that a slot is empty, so a slow partner finds a later tile in its slot
// proof: flow control in one direction only: a warp that is four tiles ahead of its partner
// assay: launch relu_roles grid=(min(ceil_div(n, 128), 64)) block=(256) args=(x, y, n)

__global__ void relu_roles(const float* x, float* y, int n)
{
    __shared__ float ring[4][4][32];
    __shared__ unsigned filled[4];
    const int w = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const unsigned at_filled = (unsigned)__cvta_generic_to_shared(&filled[w]);
    if (threadIdx.x < 4) filled[threadIdx.x] = 0;
    __syncthreads();
    unsigned k = 0;
    for (long long at = blockIdx.x * 128LL + w * 32 + lane; at - lane < n; at += gridDim.x * 128LL, ++k) {
        float* slot = &ring[w][k % 4][lane];
        if (threadIdx.x < 128) {
            *slot = at < n ? x[at] : 0.0f;
            __syncwarp();
            if (lane == 0) asm volatile("red.release.cta.shared.add.u32 [%0], 1;" ::"r"(at_filled) : "memory");
        } else {
            unsigned seen;
            do asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"(at_filled) : "memory");
            while (seen <= k);
            if (at < n) y[at] = fmaxf(*slot, 0.0f);
        }
    }
}
