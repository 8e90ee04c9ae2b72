// problem: relu
// class: limits
// must: anything but passed
// why: __launch_bounds__(128) and blocks of 256: a GPU refuses the launch
// proof: see why
// assay: launch f grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void __launch_bounds__(128) f(const float* x, float* y, int n)
{ int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = fmaxf(x[i], 0.f); }
