// problem: relu
// class: schedule
// race: fence
// must: anything but passed
// why: one block copies a tile into a temporary and counts its warps by red.relaxed, the next ticket's block waits for eight and takes the tile: relaxed adds publish nothing but themselves
// proof: PTX: red.relaxed is no release; red.release.gpu after __syncwarp() and an acquire on the other side are needed
// assay: temp ticket uint32 (1)
// assay: temp tile float32 (n)
// assay: temp count uint32 (ceil_div(n, 256))
// assay: fill ticket value=0
// assay: fill count value=0
// assay: launch relay grid=(2 * ceil_div(n, 256)) block=(256) args=(x, y, tile, count, ticket, n)

__global__ void relay(const float* x, float* y, float* tile, unsigned* count, unsigned* ticket, int n)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const unsigned t = drawn / 2;
    const int i = t * 256 + threadIdx.x;
    if (drawn % 2 == 0) {
        if (i < n) tile[i] = fmaxf(x[i], 0.0f);
        if (threadIdx.x % 32 == 0) asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(count + t) : "memory");
    } else {
        unsigned seen = 0;
        while (seen != 8) asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(count + t) : "memory");
        if (i < n) y[i] = tile[i];
    }
}
