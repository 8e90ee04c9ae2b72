// problem: prefix_sum
// Never ends: each thread waits for its left neighbour's flag, and the first waits for one that nobody sets.

__device__ volatile int done[1 << 20];

__global__ void prefix_sum(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        while (done[i % (1 << 20)] == 0) {
            // waiting
        }
        y[i] = x[i] + (i > 0 ? y[i - 1] : 0.0f);
        done[(i + 1) % (1 << 20)] = 1;
    }
}
