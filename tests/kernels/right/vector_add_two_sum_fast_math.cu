// problem: vector_add
// style: --use_fast_math, which flushes denormals; the sum with its TwoSum error added back, which changes nothing
// flags: --use_fast_math
// assay: launch add_two_sum grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)
__global__ void add_two_sum(const float* a, const float* b, float* c, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const float u = a[i], v = b[i], s = u + v, z = s - u;
    c[i] = s + ((u - (s - z)) + (v - z));
}
