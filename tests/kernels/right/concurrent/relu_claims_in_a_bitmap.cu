// problem: relu
// assay: temp claimed uint32 (ceil_div(ceil_div(n, 256), 32))
// assay: fill claimed value=0
// assay: copy x y
// assay: launch claims grid=(60) block=(64) args=(y, claimed, n)
// style: blocks claim tiles in a bitmap by atomicOr, from different ends; in place, so that a tile worked twice would show
__global__ void claims(float* y, unsigned* claimed, int n)
{
    __shared__ bool won;
    const int tiles = (n + 255) / 256;
    for (int k = 0; k < tiles; ++k) {
        const int tile = blockIdx.x & 1 ? tiles - 1 - k : k;
        __syncthreads();
        if (threadIdx.x == 0) {
            const unsigned bit = 1u << (tile & 31);
            // a look first: most tiles are taken
            won = !(*(volatile unsigned*)&claimed[tile >> 5] & bit) && !(atomicOr(&claimed[tile >> 5], bit) & bit);
        }
        __syncthreads();
        if (!won) continue;
        for (int i = tile * 256 + threadIdx.x; i < min(n, tile * 256 + 256); i += 64) {
            const float v = y[i];
            y[i] = v > 0.0f ? v : 0.0f;
        }
    }
}
