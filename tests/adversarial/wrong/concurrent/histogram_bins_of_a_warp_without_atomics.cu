// problem: histogram
// class: schedule
// race: lost update
// must: anything but passed
// why: each warp has its own bins, so that no atomic seems to be needed; but lanes of the warp with the same value read and write the same bin at the same time, and a retry until the tag is one's own (as in the SDK of 2007) needs lanes in step
// proof: SDK histogram256 of compute capability 1.x; without lockstep another lane may write between the tagged store and its check
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 4096), 256)) block=(96) args=(values, counts, n)

__device__ void add(volatile unsigned* bin, unsigned tag)
{
    unsigned count;
    do {
        count = *bin & 0x07ffffffu;
        count = tag | (count + 1);
        *bin = count;
    } while (*bin != count);
}

__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ unsigned bins[3][256];
    for (int b = threadIdx.x; b < 768; b += 96) (&bins[0][0])[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 96 + threadIdx.x; i < n; i += gridDim.x * 96) add(&bins[threadIdx.x / 32][values[i]], threadIdx.x << 27);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += 96)
        atomicAdd(&counts[b], (int)((bins[0][b] & 0x07ffffffu) + (bins[1][b] & 0x07ffffffu) + (bins[2][b] & 0x07ffffffu)));
}
