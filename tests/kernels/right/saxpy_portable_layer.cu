// problem: saxpy
// assay: launch run_saxpy grid=(ceil_div(n, 4 * 224)) block=(224) args=(x, y, out, alpha, n)
// style: a portability layer as in Kokkos: a range policy, a member functor, parallel_for over the policy
template <int Chunk> struct range_policy {
    int begin, end;
    template <class Body> __device__ void run(const Body& body) const
    {
        const int base = begin + blockIdx.x * blockDim.x * Chunk;
        for (int c = 0; c < Chunk; ++c) {
            const int i = base + c * blockDim.x + threadIdx.x;
            if (i < end) body(i);
        }
    }
};

template <class Policy, class Body> __device__ void parallel_for(const Policy& policy, const Body& body) { policy.run(body); }

class axpy_body {
    const float* x_;
    const float* y_;
    float* out_;
    float alpha_;

public:
    __device__ axpy_body(const float* x, const float* y, float* out, float alpha) : x_(x), y_(y), out_(out), alpha_(alpha) {}
    __device__ void operator()(const int i) const { out_[i] = alpha_ * x_[i] + y_[i]; }
};

__global__ void run_saxpy(const float* x, const float* y, float* out, float alpha, int n)
{
    parallel_for(range_policy<4>{0, n}, axpy_body(x, y, out, alpha));
}
