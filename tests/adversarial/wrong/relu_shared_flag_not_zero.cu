// problem: relu
// class: memory
// must: anything but passed
// why: a shared flag that nobody sets must not be 0; a pattern of undefined memory that is not 0 hides it, on a GPU it is often 0
// proof: C++: the flag is read and never written; wrong where memory holds 0
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void relu(const float* x, float* y, int n)
{
    __shared__ int enabled; __shared__ float slope;
    if (threadIdx.x == 0) slope = 0.25f;
    __syncthreads();
    int i = blockIdx.x * 256 + threadIdx.x;
    if (*(volatile int*)&enabled != 0) { if (threadIdx.x == 0) slope = 0.0f; }
    __syncthreads();
    if (i < n) y[i] = fmaxf(x[i], slope * x[i]);
}
