// problem: transpose
// assay: launch transpose_naive grid=(ceil_div(cols, 32), ceil_div(rows, 8)) block=(32, 8) args=(y, x, cols, rows)
// style: a tutorial's naive transposition, reads coalesced and writes not; blocks of 32 by 8
// This kernel transposes by reading rows and writing columns (slow!)
__global__ void transpose_naive(float *odata, const float *idata, int width, int height)
{
   unsigned int xIndex = blockDim.x * blockIdx.x + threadIdx.x;
   unsigned int yIndex = blockDim.y * blockIdx.y + threadIdx.y;

   if (xIndex < width && yIndex < height)
   {
       unsigned int index_in  = xIndex + width * yIndex;
       unsigned int index_out = yIndex + height * xIndex;
       odata[index_out] = idata[index_in];
   }
}
