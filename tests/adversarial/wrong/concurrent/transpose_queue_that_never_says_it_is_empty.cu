// problem: transpose
// class: schedule
// race: lock
// must: anything but passed
// why: persistent blocks take tiles from a queue and leave when all are counted as done; the count is raised before the last tile only if it is not the last, so the done count stays one short and all blocks poll for ever
// proof: done reaches tiles - 1 at most, and the only exit asks for tiles
// assay: temp queue uint32 (2)
// assay: fill queue value=0
// assay: launch turn grid=(48) block=(256) args=(x, y, queue, rows, cols)
__global__ void turn(const float* x, float* y, unsigned* queue, int rows, int cols)
{
    __shared__ unsigned tile, finished;
    const unsigned across = (cols + 31) / 32, tiles = across * ((rows + 31) / 32);
    while (true) {
        if (threadIdx.x == 0) {
            tile = atomicAdd(queue, 0u) < tiles ? atomicAdd(queue, 1u) : tiles;
            finished = atomicAdd(queue + 1, 0u);
        }
        __syncthreads();
        const unsigned t = tile, f = finished;
        __syncthreads();
        if (f == tiles) break;
        if (t >= tiles) continue;
        for (int e = threadIdx.x; e < 1024; e += 256) {
            const int r = t / across * 32 + e / 32, c = t % across * 32 + e % 32;
            if (r < rows && c < cols) y[(size_t)c * rows + r] = x[(size_t)r * cols + c];
        }
        if (threadIdx.x == 0 && t + 1 < tiles) atomicAdd(queue + 1, 1u);
    }
}
