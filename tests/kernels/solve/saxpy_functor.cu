// problem: saxpy
// style: a template over a functor that holds a number
template <typename Number>
struct Saxpy {
    Number alpha;
    __device__ Number operator()(Number x, Number y) const { return alpha * x + y; }
};

template <int Block, typename Operation>
__global__ void __launch_bounds__(Block) zip(const float* x, const float* y, float* out, int n, Operation operation)
{
    int i = blockIdx.x * Block + threadIdx.x;
    if (i < n) out[i] = operation(x[i], y[i]);
}

template <int Block, typename Operation>
static void launch_zip(const float* x, const float* y, float* out, int n, Operation operation)
{
    zip<Block><<<(n + Block - 1) / Block, Block>>>(x, y, out, n, operation);
}

extern "C" void solve(const float* x, const float* y, float* out, float alpha, int n)
{
    launch_zip<192>(x, y, out, n, Saxpy<float>{alpha});
}
