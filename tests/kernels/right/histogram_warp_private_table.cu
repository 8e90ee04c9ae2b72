// problem: histogram
// assay: temp partial uint32 (120, 256)
// assay: launch histogram256Kernel grid=(120) block=(192) args=(partial, values, n)
// assay: launch mergeHistogram256Kernel grid=(256) block=(128) args=(counts, partial, 120)
// style: the samples' histogram256: a table for each of six warps, partial histograms, a merging launch with a tree
#define WARP_COUNT 6
#define HISTOGRAM256_BIN_COUNT 256
typedef unsigned int uint;

inline __device__ void addByte(uint *s_WarpHist, uint data) { atomicAdd(s_WarpHist + data, 1); }

__global__ void histogram256Kernel(uint *d_PartialHistograms, const uint *d_Data, uint dataCount)
{
    __shared__ uint s_Hist[WARP_COUNT * HISTOGRAM256_BIN_COUNT];
    uint *s_WarpHist = s_Hist + (threadIdx.x >> 5) * HISTOGRAM256_BIN_COUNT;
#pragma unroll
    for (uint i = 0; i < WARP_COUNT * HISTOGRAM256_BIN_COUNT / (WARP_COUNT * 32); i++) s_Hist[threadIdx.x + i * WARP_COUNT * 32] = 0;
    __syncthreads();

    for (uint pos = blockIdx.x * blockDim.x + threadIdx.x; pos < dataCount; pos += blockDim.x * gridDim.x) {
        addByte(s_WarpHist, d_Data[pos] & 0xFFU);
    }
    __syncthreads();
    for (uint bin = threadIdx.x; bin < HISTOGRAM256_BIN_COUNT; bin += WARP_COUNT * 32) {
        uint sum = 0;
        for (uint i = 0; i < WARP_COUNT; i++) sum += s_Hist[bin + i * HISTOGRAM256_BIN_COUNT];
        d_PartialHistograms[blockIdx.x * HISTOGRAM256_BIN_COUNT + bin] = sum;
    }
}

__global__ void mergeHistogram256Kernel(uint *d_Histogram, const uint *d_PartialHistograms, uint histogramCount)
{
    uint sum = 0;
    for (uint i = threadIdx.x; i < histogramCount; i += 128) sum += d_PartialHistograms[blockIdx.x + i * HISTOGRAM256_BIN_COUNT];
    __shared__ uint data[128];
    data[threadIdx.x] = sum;
    for (uint stride = 64; stride > 0; stride >>= 1) {
        __syncthreads();
        if (threadIdx.x < stride) data[threadIdx.x] += data[threadIdx.x + stride];
    }
    if (threadIdx.x == 0) d_Histogram[blockIdx.x] = data[0];
}
