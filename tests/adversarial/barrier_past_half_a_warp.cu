// problem: relu
// attack: half of each warp goes past a barrier at which the other half waits
// expect: passed
// because: the barrier orders nothing that is used
// warns: partial_barrier
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    __shared__ volatile float last[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (threadIdx.x % 32 < 16) {
        last[threadIdx.x] = 1.0f;
        __syncthreads();  // HERE
    }
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
