// problem: transpose
// class: schedule
// must: anything but passed
// why: each block copies a tile to scratch memory by volatile stores, and then writes the tile that the block before it has copied, trusting that this one is done
// proof: no block may count on another's being done without a flag (CUDA guide, thread hierarchy)
// assay: temp tiles float32 (ceil_div(rows, 16) * ceil_div(cols, 16) * 256)
// assay: launch tr grid=(ceil_div(rows, 16) * ceil_div(cols, 16) + 1) block=(16, 16) args=(x, y, tiles, rows, cols)

__global__ void tr(const float* x, float* y, float* tiles, int rows, int cols)
{
    volatile float* scratch = tiles;
    const int across = (cols + 15) / 16, all = across * ((rows + 15) / 16), own = blockIdx.x, before = own - 1;
    if (own < all) {
        const int r = own / across * 16 + threadIdx.y, c = own % across * 16 + threadIdx.x;
        scratch[own * 256 + threadIdx.x * 16 + threadIdx.y] = r < rows && c < cols ? x[(size_t)r * cols + c] : 0.f;
    }
    __threadfence();
    __syncthreads();
    if (before >= 0) {
        const int c = before % across * 16 + threadIdx.y, r = before / across * 16 + threadIdx.x;
        if (r < rows && c < cols) y[(size_t)c * rows + r] = scratch[before * 256 + threadIdx.y * 16 + threadIdx.x];
    }
}
