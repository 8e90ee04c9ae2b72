// problem: gelu
// style: a function of several, of which one is called forward, in a namespace
#include <torch/extension.h>

namespace activations {

template <typename Op> __global__ void elementwise(const float* in, float* out, int64_t n, Op op)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = op(in[i]);
}

struct Gelu {
    __device__ float operator()(float x) const { return 0.5f * x * (1.f + erff(x * 0.70710678118654752440f)); }
};
struct Relu {
    float slope;
    __device__ float operator()(float x) const { return x > 0.f ? x : slope * x; }
};

template <typename Op> torch::Tensor apply(const torch::Tensor& x, Op op)
{
    auto y = torch::empty_like(x);
    const int64_t n = x.numel();
    elementwise<<<(unsigned)((n + 255) / 256), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, op);
    return y;
}

torch::Tensor gelu(torch::Tensor x) { return apply(x, Gelu{}); }
torch::Tensor leaky_relu(torch::Tensor x, double slope) { return apply(x, Relu{(float)slope}); }

} // namespace activations

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.doc() = "activations";
    m.def("forward", &activations::gelu);
    m.def("leaky_relu", &activations::leaky_relu, py::arg("x"), py::arg("slope") = 0.01);
}
