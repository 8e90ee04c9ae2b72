// problem: prefix_sum
// style: a workspace that is kept, where one launch without tensors follows the indices that the one before left there
#include <cuda_runtime.h>

constexpr int BLOCKS = 32;

__global__ void totals(const float* x, float* total, int* place, int n, int each)
{
    int begin = blockIdx.x * each, end = min(begin + each, n);
    float sum = 0.0f;
    for (int i = begin; i < end; ++i) sum += x[i];
    total[blockIdx.x] = sum;
    place[blockIdx.x] = BLOCKS - 1 - (int)blockIdx.x;
}
__global__ void starts(const float* total, const int* place, float* start)
{
    float sum = 0.0f;
    for (int b = 0; b < BLOCKS; ++b) {
        start[place[b]] = sum;
        sum += total[b];
    }
}
__global__ void sums(const float* x, const float* start, const int* place, float* y, int n, int each)
{
    int begin = blockIdx.x * each, end = min(begin + each, n);
    float sum = start[place[blockIdx.x]];
    for (int i = begin; i < end; ++i) y[i] = sum += x[i];
}

extern "C" void solve(const float* x, float* y, int n)
{
    static float *total = nullptr, *start = nullptr;
    static int* place = nullptr;
    if (!total) {
        cudaMalloc(&total, BLOCKS * sizeof(float));
        cudaMalloc(&start, BLOCKS * sizeof(float));
        cudaMalloc(&place, BLOCKS * sizeof(int));
    }
    int each = (n + BLOCKS - 1) / BLOCKS;
    totals<<<BLOCKS, 1>>>(x, total, place, n, each);
    starts<<<1, 1>>>(total, place, start);
    sums<<<BLOCKS, 1>>>(x, start, place, y, n, each);
}
