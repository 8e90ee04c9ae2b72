// problem: saxpy
// assay: launch saxpy_checked grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, alpha, n)
// style: defensive: assert on every index, a checked array class with operator[], __trap where it would be wrong, printf before it
#include <cassert>
#include <cstdio>

template <class T> class checked {
    T* data_;
    int size_;

public:
    __device__ checked(T* data, int size) : data_(data), size_(size) { assert(data != nullptr && size > 0); }
    __device__ T& operator[](int i) const
    {
        if (i < 0 || i >= size_) {
            printf("index %d of %d in block %d, thread %d\n", i, size_, blockIdx.x, threadIdx.x);
            __trap();
        }
        return data_[i];
    }
};

__global__ void saxpy_checked(const float* x, const float* y, float* out, float alpha, int n)
{
    assert(blockDim.x == 256 && gridDim.x == (n + 255) / 256);
    const checked<const float> u(x, n), v(y, n);
    const checked<float> w(out, n);
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) w[i] = alpha * u[i] + v[i];
}
