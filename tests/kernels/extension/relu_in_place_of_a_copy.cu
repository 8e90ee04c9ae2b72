// problem: relu
// style: clone, then in place; a dispatch macro with all types and half, an output of zeros that is filled by copy_
#include <torch/extension.h>
#include <ATen/ceil_div.h>

template <typename T> __global__ void relu_(T* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < T(0)) x[i] = T(0);
}

at::Tensor forward(at::Tensor x)
{
    auto held = x.clone();
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "relu_", [&] {
        relu_<scalar_t><<<at::ceil_div<int64_t>(x.numel(), 64), 64>>>(held.data_ptr<scalar_t>(), x.numel());
    });
    auto y = at::zeros(x.sizes(), x.options());
    y.copy_(held);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
