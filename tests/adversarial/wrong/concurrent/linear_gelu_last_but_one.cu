// problem: linear_gelu
// class: schedule
// race: last block
// must: anything but passed
// why: three slices of the depth add to a temporary and are counted from 0; whoever gets a number of at least 1 applies the epilogue, so the second does it too, perhaps after the third
// proof: the awaited number should be 2; a second block that stores after the third has stored leaves a sum without a slice
// assay: temp acc float32 (m * n)
// assay: temp done int32 (ceil_div(m, 16) * ceil_div(n, 16))
// assay: fill acc value=0
// assay: fill done value=0
// assay: launch lg grid=(ceil_div(n, 16), ceil_div(m, 16), 3) block=(16, 16) args=(x, weight, bias, y, acc, done, m, n, k)

__global__ void lg(const float* x, const float* weight, const float* bias, float* y, float* acc, int* done, int m, int n, int k)
{
    __shared__ int number;
    const int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    const bool here = i < m && j < n;
    float s = 0.0f;
    for (int l = blockIdx.z; here && l < k; l += 3) s += x[(size_t)i * k + l] * weight[(size_t)j * k + l];
    if (here) atomicAdd(&acc[(size_t)i * n + j], s);
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0) {
        __threadfence();
        number = atomicAdd(&done[blockIdx.y * gridDim.x + blockIdx.x], 1);
        __threadfence();
    }
    __syncthreads();
    if (number >= 1 && here) {
        const float z = atomicAdd(&acc[(size_t)i * n + j], 0.0f) + bias[j];
        y[(size_t)i * n + j] = 0.5f * z * (1.0f + erff(z * 0.707106781f));
    }
}
