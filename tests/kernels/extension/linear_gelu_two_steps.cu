// problem: linear_gelu
// style: two functions of the module, the one that is called calls the other; a transposed view for its strides
#include <torch/extension.h>

__global__ void linear(const float* x, const float* w, int64_t w_row, int64_t w_col, const float* b, float* y, int m, int n, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col >= n) return;
    float sum = b[col];
    for (int i = 0; i < k; i++) sum += x[(size_t)row * k + i] * w[i * w_row + col * w_col];
    y[(size_t)row * n + col] = sum;
}

__global__ void gelu_in_place(float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * y[i] * (1.f + erff(y[i] * 0.70710678f));
}

torch::Tensor linear_cuda(torch::Tensor x, torch::Tensor weight, torch::Tensor bias)
{
    auto turned = weight.t();
    auto y = torch::empty({x.size(0), turned.size(1)}, x.options());
    const int m = x.size(0), n = turned.size(1), k = x.size(1);
    linear<<<dim3((n + 127) / 128, m), 128>>>(x.data_ptr<float>(), turned.data_ptr<float>(), turned.stride(0), turned.stride(1),
                                             bias.data_ptr<float>(), y.data_ptr<float>(), m, n, k);
    return y;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias)
{
    auto y = linear_cuda(x, weight, bias);
    gelu_in_place<<<(y.numel() + 255) / 256, 256>>>(y.data_ptr<float>(), y.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("linear", &linear_cuda);
    m.def("forward", &forward);
}
