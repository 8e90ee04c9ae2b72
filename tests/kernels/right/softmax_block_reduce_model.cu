// problem: softmax
// assay: launch softmax_kernel grid=(rows) block=(256) shared=(256 * 4) args=(x, y, cols)
// style: a chat model's softmax: steps numbered in comments, one dynamic shared array used twice, -INFINITY
#include <math.h>

__global__ void softmax_kernel(const float* __restrict__ input, float* __restrict__ output, int num_features) {
    extern __shared__ float sdata[];
    int batch_idx = blockIdx.x;
    int tid = threadIdx.x;
    const float* x = input + (size_t)batch_idx * num_features;
    float* y = output + (size_t)batch_idx * num_features;

    // Step 1: Find the maximum value for numerical stability
    float max_val = -INFINITY;
    for (int i = tid; i < num_features; i += blockDim.x) {
        max_val = fmaxf(max_val, x[i]);
    }
    sdata[tid] = max_val;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (tid < stride) sdata[tid] = fmaxf(sdata[tid], sdata[tid + stride]);
        __syncthreads();
    }
    max_val = sdata[0];
    __syncthreads();

    // Step 2: Compute the sum of exponentials
    float sum = 0.0f;
    for (int i = tid; i < num_features; i += blockDim.x) {
        float e = expf(x[i] - max_val);
        y[i] = e;
        sum += e;
    }
    sdata[tid] = sum;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (tid < stride) sdata[tid] += sdata[tid + stride];
        __syncthreads();
    }
    sum = sdata[0];

    // Step 3: Normalize
    for (int i = tid; i < num_features; i += blockDim.x) {
        y[i] = y[i] / sum;
    }
}
