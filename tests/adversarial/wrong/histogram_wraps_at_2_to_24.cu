// problem: histogram
// class: sizes contents
// must: anything but passed
// why: bins in global memory are counted by atomicInc, which begins anew behind 2^24 - 1
// proof: see why
// assay: fill counts value=0
// assay: launch f grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)
__global__ void f(const int* v, unsigned* counts, int n)
{ int i = blockIdx.x * 256 + threadIdx.x; if (i < n) atomicInc(&counts[v[i]], 0xffffffu); }
