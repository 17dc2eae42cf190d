// The kernel language for OpenCL: what OpenCL C 1.2 calls the things that the kernels name.
#pragma OPENCL FP_CONTRACT OFF
#ifdef WIDE
#define LONG long
#define ULONG ulong
#define TO_LONG(v) ((long)(v))
#define TO_ULONG(v) ((ulong)(v))
#endif

#if defined(DOT) && defined(cl_khr_integer_dot_product)
#define DOT_WORDS(a, b) dot_4x8packed_ss_int(a, b)
#endif
#define UNROLL _Pragma("unroll")

// The host passes specialization constants by name: -DNAME=value.
#define SPEC(slot, name, value)
#define KERNEL(name) __kernel void name(
#define IN(slot, name) __global const uint* restrict name
#define OUT(slot, name) __global uint* restrict name
#define NEXT ,
#define BODY )
// Shared memory is declared before KERNEL with SHARED and once more, first in the body, with SHARED_HERE.
#define SHARED(name, count)
#define SHARED_HERE(name, count) __local uint name[count];
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)

#define GLOBAL(axis) ((int)get_global_id(axis))
#define LOCAL(axis) ((int)get_local_id(axis))
#define GROUP(axis) ((int)get_group_id(axis))
#define GROUP_SIZE(axis) ((int)get_local_size(axis))

#define TO_INT(v) ((int)(v))
#define TO_UINT(v) ((uint)(v))
#define TO_FLOAT(v) ((float)(v))
#define FLOAT_OF(bits) as_float(bits)
#define BITS_OF(value) as_uint(value)
// A float that no compiler may contract or reorder.
#define EXACT float
#define ROUND_EVEN(v) rint(v)
#define FLOOR(v) floor(v)
#define ABS_FLOAT(v) fabs(v)
#define SQRT(v) sqrt(v)

// f16 through the core functions that every OpenCL has, with or without cl_khr_fp16.
uint half_bits(float v) {
    ushort bits;
    vstore_half_rte(v, 0, (__private half*)&bits);
    return (uint)bits;
}
float half_value(uint bits) {
    ushort stored = (ushort)bits;
    return vload_half(0, (const __private half*)&stored);
}
#define HALF_PAIR(a, b) (half_bits(a) | (half_bits(b) << 16))
#define HALF_LOW(word) half_value((word) & 0xFFFFu)
#define HALF_HIGH(word) half_value((word) >> 16)

// The upper 32 bits of a product.
int mul_high(int a, int b) { return mul_hi(a, b); }
