// problem: relu
// style: AT_DISPATCH_FLOATING_TYPES_AND_HALF, a grid that strides over all elements
#include <torch/extension.h>

template <typename scalar_t> __global__ void relu_kernel(const scalar_t* in, scalar_t* out, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        float value = static_cast<float>(in[i]);
        out[i] = static_cast<scalar_t>(value > 0.f ? value : 0.f);
    }
}

torch::Tensor relu_cuda(torch::Tensor input)
{
    auto output = torch::empty(input.sizes().vec(), input.options());
    const size_t n = input.numel();
    const int threads = 256, blocks = std::min<size_t>((n + threads - 1) / threads, 256);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(input.scalar_type(), "relu_cuda", [&] {
        relu_kernel<scalar_t><<<blocks, threads>>>(input.data_ptr<scalar_t>(), output.data_ptr<scalar_t>(), n);
    });
    return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &relu_cuda, "ReLU (CUDA)", py::arg("x")); }
