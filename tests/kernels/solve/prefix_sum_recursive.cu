// problem: prefix_sum
// style: a host function that calls itself, with a temporary each time
#include <cuda_runtime.h>

static const int BLOCK = 256;

static __global__ void scan_blocks(const float* x, float* y, float* sums, int n)
{
    __shared__ float part[2][BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x, in = 0;
    part[0][threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = 1; step < BLOCK; step *= 2) {
        float v = part[in][threadIdx.x];
        if (threadIdx.x >= step) v += part[in][threadIdx.x - step];
        part[1 - in][threadIdx.x] = v;
        in = 1 - in;
        __syncthreads();
    }
    if (i < n) y[i] = part[in][threadIdx.x];
    if (sums && threadIdx.x == BLOCK - 1) sums[blockIdx.x] = part[in][threadIdx.x];
}

static __global__ void add_sums(float* y, const float* sums, int n)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (blockIdx.x > 0 && i < n) y[i] += sums[blockIdx.x - 1];
}

static void scan(const float* x, float* y, int n)
{
    int blocks = (n + BLOCK - 1) / BLOCK;
    if (blocks == 1) {
        scan_blocks<<<1, BLOCK>>>(x, y, nullptr, n);
        return;
    }
    float *sums, *scanned;
    cudaMalloc(&sums, blocks * sizeof(float));
    cudaMalloc(&scanned, blocks * sizeof(float));
    scan_blocks<<<blocks, BLOCK>>>(x, y, sums, n);
    scan(sums, scanned, blocks);
    add_sums<<<blocks, BLOCK>>>(y, scanned, n);
    cudaFree(sums);
    cudaFree(scanned);
}

extern "C" void solve(const float* input, float* output, int n) { scan(input, output, n); }
