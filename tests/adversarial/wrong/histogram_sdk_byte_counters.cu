// problem: histogram
// class: contents
// must: anything but passed
// why: each thread counts into bytes of its own, as the old sample histogram64 does; with 512 blocks at most a thread sees 256 and more elements from n = 2^22 on, and a byte of a bin that takes all wraps around. Even values never show it
// proof: n = 2^23 elements that are all equal: counts are 0 for that bin
// assay: fill counts value=0
// assay: launch histogram256 grid=(min(ceil_div(n, 2048), 512)) block=(32) args=(values, counts, n)

typedef unsigned char uchar;
#define BINS 256
#define THREADS 32

__global__ void histogram256(const int *d_Data, int *d_Histogram, int dataN)
{
    __shared__ uchar s_Hist[THREADS * BINS];
    for (int i = threadIdx.x; i < THREADS * BINS / 4; i += THREADS) ((unsigned *)s_Hist)[i] = 0;
    __syncthreads();
    for (int pos = blockIdx.x * THREADS + threadIdx.x; pos < dataN; pos += gridDim.x * THREADS)
        s_Hist[d_Data[pos] * THREADS + threadIdx.x]++;
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += THREADS) {
        unsigned sum = 0;
        for (int i = 0; i < THREADS; i++) sum += s_Hist[bin * THREADS + ((i + threadIdx.x) & (THREADS - 1))];
        if (sum) atomicAdd(d_Histogram + bin, sum);
    }
}
