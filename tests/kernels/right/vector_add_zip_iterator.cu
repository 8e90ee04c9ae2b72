// problem: vector_add
// assay: launch transform_n<zip_iterator, float*, plus_tuple> grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)
// style: after Thrust: a zip iterator over both operands and a functor on the pair, all passed as template arguments
struct pair_of_floats { float first, second; };

struct zip_iterator {
    const float *left, *right;
    __device__ pair_of_floats operator[](long long i) const { return {left[i], right[i]}; }
};

struct plus_tuple {
    __device__ float operator()(pair_of_floats p) const { return p.first + p.second; }
};

template <class Zip, class Out, class F>
__global__ void transform_n(const float* a, const float* b, Out out, int n)
{
    const Zip in{a, b};
    const F f{};
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        out[i] = f(in[i]);
    }
}

template __global__ void transform_n<zip_iterator, float*, plus_tuple>(const float*, const float*, float*, int);
