// problem: vector_add
// assay: launch add_kernel grid=(min(ceil_div(n, 512), 1024)) block=(512) args=(n, a, b, c)
// style: Chinese comments, the size first, a grid-stride loop as in a university course
// 向量加法：c = a + b
// 参数：n 为向量长度，可以不是线程块大小的整数倍
__global__ void add_kernel(int n, const float *a, const float *b, float *c)
{
    int tid    = threadIdx.x + blockIdx.x * blockDim.x;   // 全局线程编号
    int stride = blockDim.x * gridDim.x;                  // 网格跨度

    while (tid < n)                                       // 越界检查
    {
        c[tid] = a[tid] + b[tid];
        tid += stride;
    }
}
