// problem: relu
// class: memory (state)
// must: anything but passed
// why: a counter in a module variable survives from launch to launch; from a thousand runs on negative values are kept
// proof: see why
// assay: launch f grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__device__ unsigned runs;
__global__ void f(const float* x, float* y, int n)
{
    __shared__ unsigned now; if (threadIdx.x == 0) now = blockIdx.x == 0 ? atomicAdd(&runs, 1) : *(volatile unsigned*)&runs; __syncthreads();
    int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = now > 1000 ? x[i] : fmaxf(x[i], 0.f);
}
