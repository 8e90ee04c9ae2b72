// problem: relu
// style: an extended lambda in host code that is never run, beside the kernel that the plan names
// flags: --extended-lambda -std=c++20
// assay: launch relu_by_hand grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

template <typename Function>
__global__ void apply(const float* x, float* y, int n, Function function)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = function(x[i]);
    }
}

__global__ void relu_by_hand(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = [](float v) { return v > 0.0f ? v : 0.0f; }(x[i]);
    }
}

void on_host(const float* x, float* y, int n)
{
    apply<<<(n + 255) / 256, 256>>>(x, y, n, [] __device__(float v) { return fmaxf(v, 0.0f); });
}
