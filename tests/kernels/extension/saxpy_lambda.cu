// problem: saxpy
// style: bound as a lambda, at:: names, a float parameter
#include <ATen/ATen.h>
#include <torch/extension.h>

namespace {

__global__ void saxpy(float alpha, const float* x, const float* y, float* out, size_t n)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = alpha * x[i] + y[i];
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("forward", [](at::Tensor x, at::Tensor y, float alpha) {
        at::Tensor out = at::zeros_like(y);
        saxpy<<<64, 256>>>(alpha, x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
        return out;
    });
}
