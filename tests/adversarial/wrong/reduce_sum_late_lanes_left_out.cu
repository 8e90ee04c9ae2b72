// problem: reduce_sum
// class: warp
// must: passed with a warning | anything but passed
// why: the last lanes of a warp may have left (i >= n) while the others shuffle with the full mask and add what they get from lanes that have exited: undefined, by luck 0 or an old value
// proof: PTX shfl.sync: a value from an inactive thread is undefined; n that is no multiple of 32
// assay: fill total value=0
// assay: launch s grid=(ceil_div(n, 128)) block=(128) args=(x, total, n)
__global__ void s(const float*x,float*total,int n){int i=blockIdx.x*128+threadIdx.x;if(i>=n)return;float v=x[i];
for(int o=16;o;o>>=1)v+=__shfl_down_sync(-1,v,o);if(!(i&31))atomicAdd(total,v);}
