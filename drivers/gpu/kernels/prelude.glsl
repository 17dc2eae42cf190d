// The kernel language for Vulkan: what GLSL calls the things that the kernels name.
#extension GL_EXT_control_flow_attributes : enable
#ifdef WIDE
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#define LONG int64_t
#define ULONG uint64_t
#define TO_LONG(v) int64_t(v)
#define TO_ULONG(v) uint64_t(v)
#endif

#ifdef DOT
#extension GL_EXT_spirv_intrinsics : require
// OpSDotKHR of two words of four bytes.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int signed_dot(uint a, uint b, spirv_literal int format);
#define DOT_WORDS(a, b) signed_dot(a, b, 0)
#endif
#define UNROLL [[unroll]]

#define SPEC(slot, name, value) layout(constant_id = slot) const int name = value;
#define KERNEL(name)
#define IN(slot, name) layout(std430, set = 0, binding = slot) readonly restrict buffer Block##slot { uint name[]; };
#define OUT(slot, name) layout(std430, set = 0, binding = slot) writeonly restrict buffer Block##slot { uint name[]; };
#define NEXT
#define BODY layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in; void main()
// Shared memory is declared before KERNEL with SHARED and once more, first in the body, with SHARED_HERE.
#define SHARED(name, count) shared uint name[count];
#define SHARED_HERE(name, count)
#define BARRIER barrier()

#define GLOBAL(axis) int(gl_GlobalInvocationID[axis])
#define LOCAL(axis) int(gl_LocalInvocationID[axis])
#define GROUP(axis) int(gl_WorkGroupID[axis])
#define GROUP_SIZE(axis) int(gl_WorkGroupSize[axis])

#define TO_INT(v) int(v)
#define TO_UINT(v) uint(v)
#define TO_FLOAT(v) float(v)
#define FLOAT_OF(bits) uintBitsToFloat(bits)
#define BITS_OF(value) floatBitsToUint(value)
// A float that no compiler may contract or reorder.
#define EXACT precise float
#define ROUND_EVEN(v) roundEven(v)
#define FLOOR(v) floor(v)
#define ABS_FLOAT(v) abs(v)
#define SQRT(v) sqrt(v)
#define HALF_PAIR(a, b) packHalf2x16(vec2(a, b))
#define HALF_LOW(word) unpackHalf2x16(word).x
#define HALF_HIGH(word) unpackHalf2x16(word).y

// The upper 32 bits of a product.
int mul_high(int a, int b) {
    int low;
    int high;
    imulExtended(a, b, high, low);
    return high;
}
