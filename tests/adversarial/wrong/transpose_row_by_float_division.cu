// problem: transpose
// class: sizes
// must: anything but passed
// why: an element's row is found by dividing floats: beyond 2^24 elements an odd index where a row begins rounds down into the row before
// proof: assay grade --size rows=4133 --size cols=4103 refuses it

__global__ void transpose_flat(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    int r = (int)((float)i / (float)cols);
    int c = i - r * cols;
    if (c < 0) {
        --r;
        c += cols;
    }
    y[c * rows + r] = x[i];
}
