// problem: relu
// assay: launch activate<leaky_relu> grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// style: a framework's activation: a leaky ReLU functor with slope 0 by default, dispatched through a template
struct leaky_relu {
    float slope = 0.0f;
    __host__ __device__ float operator()(float v) const { return (v > 0 ? v : 0.0f) + slope * (v < 0 ? v : 0.0f); }
};

template <typename Op>
__global__ void activate(const float* __restrict__ in, float* __restrict__ out, int count)
{
    Op op;
    int index = blockDim.x * blockIdx.x + threadIdx.x;
    if (index < count) out[index] = op(in[index]);
}
template __global__ void activate<leaky_relu>(const float*, float*, int);
