// problem: reduce_sum
// style: launches until one number is left, in temporaries
#include <cuda_runtime.h>

__global__ void block_sums(const float* in, float* out, int n)
{
    extern __shared__ float part[];
    int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    float sum = i < n ? in[i] : 0.0f;
    if (i + blockDim.x < n) sum += in[i + blockDim.x];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

extern "C" void solve(const float* input, float* output, int N)
{
    const int block = 256, each = 2 * block;
    int blocks = (N + each - 1) / each;
    float *one = nullptr, *other = nullptr;
    cudaMalloc((void**)&one, blocks * sizeof(float));
    cudaMalloc((void**)&other, ((blocks + each - 1) / each) * sizeof(float));
    const float* from = input;
    float* to = one;
    int left = N;
    while (true) {
        int many = (left + each - 1) / each;
        block_sums<<<many, block, block * sizeof(float)>>>(from, many == 1 ? output : to, left);
        if (many == 1) break;
        from = to;
        to = to == one ? other : one;
        left = many;
    }
    cudaFree(one);
    cudaFree(other);
}
