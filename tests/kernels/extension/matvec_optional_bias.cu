// problem: matvec
// style: an optional tensor that nobody gives, warps per row
#include <torch/extension.h>

__global__ void matvec(const float* a, const float* x, const float* bias, float* y, int m, int k)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    float sum = 0.f;
    for (int i = lane; i < k; i += 32) sum += a[(size_t)row * k + i] * x[i];
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) y[row] = sum + (bias ? bias[row] : 0.f);
}

torch::Tensor forward(torch::Tensor a, torch::Tensor x, c10::optional<torch::Tensor> bias)
{
    const int m = a.size(0), k = a.size(1);
    auto y = a.new_empty({m});
    const float* bias_pointer = bias.has_value() ? bias->data_ptr<float>() : nullptr;
    matvec<<<(m * 32 + 127) / 128, 128>>>(a.data_ptr<float>(), x.data_ptr<float>(), bias_pointer, y.data_ptr<float>(), m, k);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, py::arg("a"), py::arg("x"), py::arg("bias") = py::none()); }
