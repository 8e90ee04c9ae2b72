// problem: rms_norm
// style: py::object for what may be None, a scratch tensor of another type
#include <torch/extension.h>
#include <pybind11/pybind11.h>

__global__ void squares(const float* x, double* scale, int rows, int cols, double eps)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    double sum = 0;
    for (int i = 0; i < cols; i++) sum += (double)x[(size_t)row * cols + i] * x[(size_t)row * cols + i];
    scale[row] = 1.0 / sqrt(sum / cols + eps);
}

__global__ void apply(const float* x, const double* scale, const float* weight, float* y, int cols, size_t total)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < total) y[i] = (float)(x[i] * scale[i / cols]) * (weight ? weight[i % cols] : 1.0f);
}

torch::Tensor forward(torch::Tensor x, py::object weight_object, double eps)
{
    const float* weight = nullptr;
    if (!weight_object.is_none()) weight = weight_object.cast<torch::Tensor>().data_ptr<float>();
    const int rows = x.size(0), cols = x.size(1);
    auto scale = torch::empty({rows}, x.options().dtype(torch::kFloat64));
    auto y = torch::empty({rows, cols}, x.options());
    squares<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), scale.data_ptr<double>(), rows, cols, eps);
    apply<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), scale.data_ptr<double>(), weight, y.data_ptr<float>(), cols, x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
