// problem: gelu
// style: virtual functions of objects that placement new builds in shared memory; lanes of a warp call different ones
// assay: launch gelu_virtual grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <new>

struct Gate {
    __device__ virtual float of(float x) const = 0;
    __device__ float gelu(float x) const { return x * of(x); }
};

struct Erf : Gate {
    float scale;
    __device__ explicit Erf(float scale) : scale(scale) {}
    __device__ float of(float x) const override { return 0.5f + 0.5f * erff(x * scale); }
};

struct Erfc : Gate {
    float half, scale;
    __device__ Erfc(float half, float scale) : half(half), scale(scale) {}
    __device__ float of(float x) const override { return half * erfcf(-x * scale); }
};

__global__ void gelu_virtual(const float* x, float* y, int n)
{
    __shared__ alignas(16) unsigned char room[2][32];
    __shared__ const Gate* gates[2];
    if (threadIdx.x == 0) {
        gates[0] = new (room[0]) Erf(0.70710678118654752f);
        gates[1] = new (room[1]) Erfc(0.5f, 0.70710678118654752f);
    }
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        // Where the sum of 1 and erf would cancel, erfc does not.
        const float value = x[i];
        y[i] = gates[value < 0.0f]->gelu(value);
    }
}
