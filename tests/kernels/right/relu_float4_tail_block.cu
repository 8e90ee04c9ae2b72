// problem: relu
// assay: launch relu_vec4_kernel grid=(ceil_div(ceil_div(n, 4), 256)) block=(256) args=(x, y, n)
// style: a chat model's "optimised" ReLU: float4 where four are left, else element by element
#include <cuda_runtime.h>

// Optimized ReLU kernel with vectorized memory access
__global__ void relu_vec4_kernel(const float* __restrict__ input, float* __restrict__ output, int size) {
    int vec_idx = (blockIdx.x * blockDim.x + threadIdx.x);
    int base = vec_idx * 4;

    if (base + 3 < size) {
        // Load 4 elements at once for better memory throughput
        float4 v = reinterpret_cast<const float4*>(input)[vec_idx];
        v.x = fmaxf(v.x, 0.0f);
        v.y = fmaxf(v.y, 0.0f);
        v.z = fmaxf(v.z, 0.0f);
        v.w = fmaxf(v.w, 0.0f);
        reinterpret_cast<float4*>(output)[vec_idx] = v;
    } else {
        // Handle the remaining elements
        for (int i = base; i < size; ++i) {
            output[i] = fmaxf(input[i], 0.0f);
        }
    }
}
