// problem: scalar_multiply
// assay: launch scale_vec grid=(ceil_div(n, 8 * 64)) block=(64) args=(x, y, alpha, n)
// style: as in libraries for models: an aligned struct of eight floats, memcpy into it, operators on it, a tail loop
#include <cstring>

template <class T, int N> struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) vec_t {
    T val[N];
    __device__ vec_t& operator*=(T by)
    {
#pragma unroll
        for (int i = 0; i < N; ++i) val[i] *= by;
        return *this;
    }
};

__global__ void scale_vec(const float* x, float* y, float alpha, int n)
{
    using vec = vec_t<float, 8>;
    const int begin = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (begin + 8 <= n) {
        vec v = *reinterpret_cast<const vec*>(x + begin);
        v *= alpha;
        *reinterpret_cast<vec*>(y + begin) = v;
    } else if (begin < n) {
        vec v = {};
        memcpy(&v, x + begin, (n - begin) * sizeof(float));
        v *= alpha;
        memcpy(y + begin, &v, (n - begin) * sizeof(float));
    }
}
