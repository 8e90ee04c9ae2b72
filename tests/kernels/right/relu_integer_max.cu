// problem: relu
// assay: launch relu_int grid=(ceil_div(n, 736)) block=(736) args=(x, y, n)
// style: floats compare as integers: max of the bits and 0, through int pointers; 23 warps a block
__global__ void relu_int(const int* x, int* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = max(x[i], 0);
}
