// problem: gelu
// assay: launch gelu_forward_kernel<float> grid=(ceil_div(n, 512)) block=(512) args=(x, y, n)
// style: a PyTorch extension's kernel as a model writes it: scalar_t, M_SQRT1_2, size_t, CUDA_1D_KERNEL_LOOP
#define CUDA_1D_KERNEL_LOOP(i, n) \
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < (n); i += size_t(blockDim.x) * gridDim.x)
#ifndef M_SQRT1_2
#define M_SQRT1_2 0.70710678118654752440
#endif

template <typename scalar_t>
__global__ void gelu_forward_kernel(const scalar_t* __restrict__ input, scalar_t* __restrict__ output, const size_t numel)
{
    CUDA_1D_KERNEL_LOOP(idx, numel)
    {
        const scalar_t v = input[idx];
        constexpr scalar_t kAlpha = static_cast<scalar_t>(M_SQRT1_2);
        output[idx] = v * static_cast<scalar_t>(0.5) * (static_cast<scalar_t>(1) + ::erf(v * kAlpha));
    }
}

template __global__ void gelu_forward_kernel<float>(const float* __restrict__, float* __restrict__, const size_t);
