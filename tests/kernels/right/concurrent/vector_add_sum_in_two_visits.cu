// problem: vector_add
// assay: fill c value=0
// assay: launch visits grid=(ceil_div(n, 256), 2) block=(256) args=(a, b, c, n)
// style: two blocks visit each element and add their operand by red.relaxed.gpu; 0 + a + b rounds once whatever the order
__global__ void visits(const float* a, const float* b, float* c, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const float v = blockIdx.y ? b[i] : a[i];
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(c + i), "f"(v) : "memory");
}
