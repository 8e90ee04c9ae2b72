// problem: histogram
// class: schedule
// race: divergence
// must: anything but passed
// why: lanes of a warp add to the warp's bins one after the other, each in its own branch and without atomics: branches of different lanes need not run one after the other, and nothing orders their memory
// proof: CUDA guide, independent thread scheduling: __syncwarp() is missing between the turns
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 1024), 256)) block=(128) args=(values, counts, n)

__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ unsigned short bins[4][256];
    const int lane = threadIdx.x & 31, w = threadIdx.x >> 5, limit = (n + 1023) / 1024;
    for (int b = lane; b < 256; b += 32) bins[w][b] = 0;
    __syncwarp();
    int added = 0;
    for (int chunk = blockIdx.x; chunk < limit; chunk += gridDim.x)
        for (int k = 0; k < 8; ++k, ++added) {
            const int i = chunk * 1024 + w * 256 + k * 32 + lane;
            const int v = i < n ? values[i] : -1;
            for (int turn = 0; turn < 32; ++turn)
                if (turn == lane && v >= 0) bins[w][v] = bins[w][v] + 1;
            if (added % 1024 == 1023) {  // 2^15 elements: drain before 16 bits are full
                __syncwarp();
                for (int b = lane; b < 256; b += 32) {
                    atomicAdd(&counts[b], (int)bins[w][b]);
                    bins[w][b] = 0;
                }
                __syncwarp();
            }
        }
    __syncwarp();
    for (int b = lane; b < 256; b += 32) atomicAdd(&counts[b], (int)bins[w][b]);
}
