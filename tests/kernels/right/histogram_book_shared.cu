// problem: histogram
// assay: fill counts value=0
// assay: launch histo_kernel grid=(min(ceil_div(n, 256), 216)) block=(256) args=(values, n, counts)
// style: a beginners' book: 256 threads, 256 counters in shared memory, atomicAdd, a while loop with offset
__global__ void histo_kernel( int *buffer, long size, int *histo ) {

    // clear out the accumulation buffer called temp
    // since we are launched with 256 threads, it is easy
    // to clear that memory with one write per thread
    __shared__  unsigned int temp[256];
    temp[threadIdx.x] = 0;
    __syncthreads();

    // calculate the starting index and the offset to the next
    // block that each thread will be processing
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    int offset = blockDim.x * gridDim.x;
    while (i < size) {
        atomicAdd( &temp[buffer[i]], 1 );
        i += offset;
    }
    // sync the data from the above writes to shared memory
    // then add the shared memory values to the values from the other thread blocks using atomic adds
    __syncthreads();
    atomicAdd( &(histo[threadIdx.x]), temp[threadIdx.x] );
}
