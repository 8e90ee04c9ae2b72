// problem: transpose
// assay: temp owner int32 (ceil_div(rows, 32) * ceil_div(cols, 32))
// assay: fill owner value=0
// assay: launch tiles grid=(min(ceil_div(rows, 32) * ceil_div(cols, 32), 90)) block=(32, 8) args=(x, y, owner, rows, cols)
// style: blocks walk all tiles from different starts and claim each by atomicCAS, told to the block by __syncthreads_or
__global__ void tiles(const float* x, float* y, int* owner, int rows, int cols)
{
    __shared__ float tile[32][33];
    const int across = (cols + 31) / 32, all = across * ((rows + 31) / 32);
    for (int k = 0; k < all; ++k) {
        const int t = (int)(((long long)blockIdx.x * all / gridDim.x + k) % all);
        bool won = false;
        if (threadIdx.x + threadIdx.y == 0) won = atomicCAS(owner + t, 0, (int)blockIdx.x + 1) == 0;
        if (!__syncthreads_or(won)) continue;
        const int r0 = t / across * 32, c0 = t % across * 32;
        for (int i = threadIdx.y; i < 32; i += 8)
            if (r0 + i < rows && c0 + (int)threadIdx.x < cols) tile[i][threadIdx.x] = x[(size_t)(r0 + i) * cols + c0 + threadIdx.x];
        __syncthreads();
        for (int i = threadIdx.y; i < 32; i += 8)
            if (c0 + i < cols && r0 + (int)threadIdx.x < rows) y[(size_t)(c0 + i) * rows + r0 + threadIdx.x] = tile[threadIdx.x][i];
    }
}
