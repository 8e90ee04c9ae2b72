// problem: histogram
// assay: fill counts value=0
// assay: launch histo_privatized grid=(ceil_div(n, 8 * 128)) block=(128) args=(values, counts, n)
// style: the textbook's aggregation: contiguous pieces a thread, an accumulator for runs of equal values, privatized bins
#define NUM_BINS 256
#define CFACTOR 8

__global__ void histo_privatized(const int* data, int* histo, unsigned int length)
{
    __shared__ unsigned int histo_s[NUM_BINS];
    for (unsigned int bin = threadIdx.x; bin < NUM_BINS; bin += blockDim.x) histo_s[bin] = 0u;
    __syncthreads();
    unsigned int accumulator = 0;
    int prevBinIdx = -1;
    unsigned int tid = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned int i = tid * CFACTOR; i < min((tid + 1) * CFACTOR, length); ++i) {
        int bin = data[i];
        if (bin == prevBinIdx) {
            ++accumulator;
        } else {
            if (accumulator > 0) atomicAdd(&(histo_s[prevBinIdx]), accumulator);
            accumulator = 1;
            prevBinIdx = bin;
        }
    }
    if (accumulator > 0) atomicAdd(&(histo_s[prevBinIdx]), accumulator);
    __syncthreads();
    for (unsigned int bin = threadIdx.x; bin < NUM_BINS; bin += blockDim.x) {
        unsigned int binValue = histo_s[bin];
        if (binValue > 0) atomicAdd(&(histo[bin]), binValue);
    }
}
