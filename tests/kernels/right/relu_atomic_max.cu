// problem: relu
// assay: fill y value=0
// assay: launch raise_to grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)
// style: the output is filled with zeros and raised by an integer atomicMax on the bits
__global__ void raise_to(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicMax(reinterpret_cast<int*>(y) + i, __float_as_int(x[i]));
}
