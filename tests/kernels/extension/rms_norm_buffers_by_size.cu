// problem: rms_norm
// style: buffers that are kept for each shape that was ever asked for
#include <torch/extension.h>

#include <map>
#include <utility>

__global__ void scales(const float* x, float* scale, float eps, int cols)
{
    const size_t row = blockIdx.x;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += x[row * cols + i] * x[row * cols + i];
    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffff, sum, half);
    if (threadIdx.x == 0) scale[row] = rsqrtf(sum / cols + eps);
}
__global__ void norm(const float* x, const float* weight, const float* scale, float* y, int cols)
{
    const size_t row = blockIdx.x;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[row * cols + i] = x[row * cols + i] * scale[row] * weight[i];
}

static torch::Tensor& kept(int64_t rows, int64_t cols, const torch::Tensor& like)
{
    static std::map<std::pair<int64_t, int64_t>, torch::Tensor> found;
    torch::Tensor& one = found[{rows, cols}];
    if (!one.defined()) one = torch::empty({rows}, like.options());
    return one;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps)
{
    const int rows = x.size(0), cols = x.size(1);
    torch::Tensor& scale = kept(rows, cols, x);
    auto y = torch::empty_like(x);
    scales<<<rows, 32>>>(x.data_ptr<float>(), scale.data_ptr<float>(), eps, cols);
    norm<<<rows, 64>>>(x.data_ptr<float>(), weight.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), cols);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
