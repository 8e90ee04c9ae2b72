// problem: vector_add
// style: an object made once that holds a workspace and launches
#include <torch/extension.h>
#include <memory>

__global__ void half_way(const float* a, float* kept, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) kept[i] = a[i];
}
__global__ void the_rest(const float* kept, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = kept[i] + b[i];
}

class Adder {
  public:
    torch::Tensor operator()(const torch::Tensor& a, const torch::Tensor& b)
    {
        if (!workspace.defined() || workspace.numel() < a.numel()) workspace = torch::empty_like(a);
        auto c = torch::empty_like(a);
        int n = a.numel(), blocks = (n + 127) / 128;
        half_way<<<blocks, 128>>>(a.data_ptr<float>(), workspace.data_ptr<float>(), n);
        the_rest<<<blocks, 128>>>(workspace.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
        return c;
    }

  private:
    torch::Tensor workspace;
};

torch::Tensor forward(torch::Tensor a, torch::Tensor b)
{
    static auto adder = std::make_unique<Adder>();
    return (*adder)(a, b);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
