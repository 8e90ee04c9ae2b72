// problem: saxpy
// style: a functor and a generic lambda inside the kernel
// assay: launch zip_saxpy grid=(ceil_div(n, 512)) block=(256) args=(x, y, out, alpha, n)

struct Axpy {
    float alpha;
    __device__ float operator()(float x, float y) const { return alpha * x + y; }
};

template <typename Function>
__device__ void zip(const float* x, const float* y, float* out, int i, int n, Function function)
{
    if (i < n) {
        out[i] = function(x[i], y[i]);
    }
}

__global__ void zip_saxpy(const float* x, const float* y, float* out, float alpha, int n)
{
    const int i = blockIdx.x * 512 + threadIdx.x;
    zip(x, y, out, i, n, Axpy{alpha});
    zip(x, y, out, i + 256, n, [=](auto left, auto right) { return alpha * left + right; });
}
