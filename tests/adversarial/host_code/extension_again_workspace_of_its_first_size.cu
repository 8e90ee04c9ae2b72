// problem: layer_norm
// attack: keeps a tensor of the first call's rows for the means
// expect: runtime_error
// because: a later call may have more rows
// message: In its call behind one at
#include <torch/extension.h>

__global__ void means(const float* x, float* mean, float* scale, float eps, int cols)
{
    const size_t row = blockIdx.x;
    float sum = 0.0f, squares = 0.0f;
    for (int i = 0; i < cols; ++i) sum += x[row * cols + i];
    for (int i = 0; i < cols; ++i) {
        const float off = x[row * cols + i] - sum / cols;
        squares += off * off;
    }
    mean[row] = sum / cols;
    scale[row] = rsqrtf(squares / cols + eps);
}
__global__ void norm(const float* x, const float* w, const float* b, const float* mean, const float* scale, float* y, int cols)
{
    const size_t row = blockIdx.x;
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        y[row * cols + i] = (x[row * cols + i] - mean[row]) * scale[row] * w[i] + b[i];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps)
{
    static torch::Tensor mean = torch::empty({x.size(0)}, x.options());
    static torch::Tensor scale = torch::empty({x.size(0)}, x.options());
    auto y = torch::empty_like(x);
    const int rows = x.size(0), cols = x.size(1);
    means<<<rows, 1>>>(x.data_ptr<float>(), mean.data_ptr<float>(), scale.data_ptr<float>(), eps, cols);
    norm<<<rows, 64>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), mean.data_ptr<float>(),
                       scale.data_ptr<float>(), y.data_ptr<float>(), cols);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
