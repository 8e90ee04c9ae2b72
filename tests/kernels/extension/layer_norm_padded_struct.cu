// problem: layer_norm
// style: a struct with padding by value, mean and variance by shuffles
#include <torch/extension.h>

struct Norm {
    bool affine;
    const float* x;
    float eps;
    const float* weight;
    const float* bias;
    short unused;
    float* y;
    int cols;
};

__device__ float all_lanes(float value)
{
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

__global__ void norm(const Norm n)
{
    const float* row = n.x + (size_t)blockIdx.x * n.cols;
    float sum = 0.f, squares = 0.f;
    for (int c = threadIdx.x; c < n.cols; c += 32) sum += row[c];
    const float mean = all_lanes(sum) / n.cols;
    for (int c = threadIdx.x; c < n.cols; c += 32) squares += (row[c] - mean) * (row[c] - mean);
    const float scale = rsqrtf(all_lanes(squares) / n.cols + n.eps);
    for (int c = threadIdx.x; c < n.cols; c += 32) {
        float value = (row[c] - mean) * scale;
        n.y[(size_t)blockIdx.x * n.cols + c] = n.affine ? value * n.weight[c] + n.bias[c] : value;
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps)
{
    auto y = torch::empty_like(x);
    Norm n;
    n.affine = true;
    n.x = x.data_ptr<float>(), n.weight = weight.data_ptr<float>(), n.bias = bias.data_ptr<float>();
    n.unused = 0;
    n.y = y.data_ptr<float>(), n.eps = eps, n.cols = x.size(1);
    norm<<<x.size(0), 32>>>(n);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
