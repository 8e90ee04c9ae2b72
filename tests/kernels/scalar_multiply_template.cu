// problem: scalar_multiply
// style: template with explicit instantiations, one of which the plan names by its template arguments
// assay: launch scale<float, 4> grid=(ceil_div(n, 1024)) block=(256) args=(x, y, alpha, n)

template <typename T, int PER_THREAD>
__global__ void scale(const T* x, T* y, T alpha, int n)
{
    const int first = blockIdx.x * blockDim.x * PER_THREAD + threadIdx.x;
#pragma unroll
    for (int step = 0; step < PER_THREAD; ++step) {
        const int i = first + step * blockDim.x;
        if (i < n) {
            y[i] = alpha * x[i];
        }
    }
}

template __global__ void scale<float, 4>(const float*, float*, float, int);
template __global__ void scale<float, 1>(const float*, float*, float, int);
template __global__ void scale<double, 2>(const double*, double*, double, int);
