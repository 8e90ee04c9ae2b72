// problem: vector_add
// assay: launch add grid=(min(n, 65535)) block=(1) args=(a, b, c, n)
// style: the first program of a book: add<<<N, 1>>>, blocks of one thread, tid = blockIdx.x
__global__ void add(float const *a, float const *b, float *c, int N)
{
    int tid = blockIdx.x;    // handle the data at this index
    while (tid < N) {
        c[tid] = a[tid] + b[tid];
        tid += gridDim.x;
    }
}
