// problem: saxpy
// attack: counts its launches and does only half of the work from the fourth on
// expect: incorrect
// because: more than three runs are checked, and on a GPU timed runs are checked as well
// assay: launch saxpy grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, alpha, n)
// assay: launch count grid=(1) block=(1) args=()

__device__ int launches = 0;

__global__ void saxpy(const float* x, const float* y, float* out, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && (launches < 3 || i % 2 == 0)) {
        out[i] = alpha * x[i] + y[i];
    }
}

__global__ void count()
{
    ++launches;
}
