/* ---- Helpers ---- */

/* Element `i` of a slice; the caller knows that it exists. */
#define OTTAVA_AT(type, slice, i) \
    ((type*)(void*)((char*)(uintptr_t)(slice).ptr + (size_t)(i) * (slice).stride))

/* Whether a text equals a zero-terminated one. */
static inline int ottava_str_eq(ottava_str a, const char* b) {
    return a.len == strlen(b) && (a.len == 0 || memcmp(a.ptr, b, (size_t)a.len) == 0);
}

/* A view of a zero-terminated text. */
static inline ottava_str ottava_text(const char* text) {
    ottava_str s;
    s.ptr = text;
    s.len = strlen(text);
    return s;
}

/* A view of a string literal, as an initializer. */
#define OTTAVA_LITERAL(text) {text, sizeof(text) - 1}

/* A view of an array. */
static inline ottava_slice ottava_array(const void* ptr, uint64_t len, size_t stride) {
    ottava_slice s;
    s.ptr = ptr;
    s.len = len;
    s.stride = (uint32_t)stride;
    s.pad = 0;
    return s;
}

/* A name of the program view; zero-terminated. */
static inline const char* ottava_name(const ottava_program_v1* program, uint32_t offset) {
    return offset < program->strings.len ? program->strings.ptr + offset : "";
}

/* Node `i` of a program, or NULL. */
static inline const ottava_node_v1* ottava_node_at(const ottava_program_v1* program, uint64_t i) {
    return i < program->nodes.len ? OTTAVA_AT(const ottava_node_v1, program->nodes, i) : NULL;
}

/* Value `i` of a program, or NULL. */
static inline const ottava_value_v1* ottava_value_at(const ottava_program_v1* program, uint32_t i) {
    return i < program->values.len ? OTTAVA_AT(const ottava_value_v1, program->values, i) : NULL;
}

/* The value of edge `i` of a program, or NULL: inputs begin at node->in_first, outputs at node->out_first. */
static inline const ottava_value_v1* ottava_edge_at(const ottava_program_v1* program, uint64_t i) {
    return i < program->edges.len ? ottava_value_at(program, *OTTAVA_AT(const uint32_t, program->edges, i)) : NULL;
}

/* The quantization of a value, or NULL. */
static inline const ottava_quant_v1* ottava_quant_of(const ottava_program_v1* program, const ottava_value_v1* value) {
    return value && value->quant < program->quants.len ? OTTAVA_AT(const ottava_quant_v1, program->quants, value->quant)
                                                       : NULL;
}

/* Extent `axis` of a value; negative for a symbol, 0 if there is no such axis. */
static inline int64_t ottava_dim_of(const ottava_program_v1* program, const ottava_value_v1* value, uint32_t axis) {
    uint64_t i = value ? (uint64_t)value->dim_first + axis : 0;
    return value && axis < value->rank && i < program->dims.len ? *OTTAVA_AT(const int64_t, program->dims, i) : 0;
}

/* Number of elements of a value; 0 if an extent is 0 or symbolic, or there are more than fit. */
static inline uint64_t ottava_elements_of(const ottava_program_v1* program, const ottava_value_v1* value) {
    uint64_t n = value && value->rank != OTTAVA_INDEX_NONE ? 1 : 0;
    for (uint32_t a = 0; n && a < value->rank; a++) {
        int64_t dim = ottava_dim_of(program, value, a);
        n = dim <= 0 || n > (uint64_t)INT64_MAX / (uint64_t)dim ? 0 : n * (uint64_t)dim;
    }
    return n;
}

/* Fills an error and returns its code. */
static inline int32_t ottava_fail(ottava_error_v1* err, int32_t code, const char* message) {
    if (err) {
        size_t room = sizeof(err->message) - 1, len = strlen(message);
        err->code = code;
        err->flags = len > room ? OTTAVA_ERROR_TRUNCATED : 0;
        err->node = OTTAVA_INDEX_NONE;
        err->reason = 0;
        err->vendor_code = 0;
        memset(err->message, 0, sizeof(err->message));
        memcpy(err->message, message, len > room ? room : len);
    }
    return code;
}

/* ---- The entry ---- */

#if defined(__GNUC__)
#define OTTAVA_EXPORT __attribute__((visibility("default")))
#define OTTAVA_SECTION __attribute__((section(".ottava.abi"), used))
#else
#define OTTAVA_EXPORT
#define OTTAVA_SECTION
#endif

/* The one function that a driver exports. */
OTTAVA_EXPORT int32_t ottava_driver_entry_v1(const ottava_host_v1* host, const ottava_driver_v1** out, ottava_error_v1* err);
OTTAVA_EXPORT extern const ottava_abi_note_v1 ottava_abi_note;

#ifdef __cplusplus
} /* extern "C" */

/* Runs a body; an exception becomes PANIC with its words.
 *   static int32_t submit(...) { OTTAVA_GUARD(err, { work(); return OTTAVA_OK; }) } */
#define OTTAVA_GUARD(err, ...)                                              \
    try __VA_ARGS__                                                         \
    catch (const std::exception& ottava_e_) {                               \
        return ottava_fail(err, OTTAVA_PANIC, ottava_e_.what());            \
    }                                                                       \
    catch (...) {                                                           \
        return ottava_fail(err, OTTAVA_PANIC, "an exception without words"); \
    }

namespace ottava {

/* The elements of a slice, for range-based for: `for (const auto& node : ottava::view<ottava_node_v1>(p->nodes))`. */
template <class T> class view {
  public:
    explicit view(const ottava_slice& slice) : slice_(slice) {}

    class iterator {
      public:
        iterator(const char* at, size_t stride) : at_(at), stride_(stride) {}
        const T& operator*() const { return *reinterpret_cast<const T*>(at_); }
        iterator& operator++() {
            at_ += stride_;
            return *this;
        }
        bool operator!=(const iterator& other) const { return at_ != other.at_; }

      private:
        const char* at_;
        size_t stride_;
    };

    iterator begin() const { return iterator(static_cast<const char*>(slice_.ptr), slice_.stride); }
    iterator end() const {
        return iterator(static_cast<const char*>(slice_.ptr) + static_cast<size_t>(slice_.len) * slice_.stride,
                        slice_.stride);
    }

  private:
    ottava_slice slice_;
};

} // namespace ottava
#endif

/* Writes note and entry of a driver. `name` (at most 31 bytes) and `version` (at most 15) are string literals, `entry`
 * is a function with the signature of ottava_driver_entry_v1. */
#define OTTAVA_EXPORT_DRIVER(name, version, entry)                                                              \
    OTTAVA_ASSERT(sizeof(name) <= 32, "the driver's name has at most 31 bytes");                                \
    OTTAVA_ASSERT(sizeof(version) <= 16, "the driver's version has at most 15 bytes");                          \
    OTTAVA_EXTERN_C OTTAVA_EXPORT OTTAVA_SECTION const ottava_abi_note_v1 ottava_abi_note = {                    \
        {'O', 'T', 'T', 'A', 'V', 'A', 'v', '1'}, OTTAVA_ABI_MAJOR, OTTAVA_ABI_MAJOR, OTTAVA_ABI_MAJOR,         \
        OTTAVA_ABI_MINOR, OTTAVA_ABI_PATCH, OTTAVA_DOOR_C, OTTAVA_CORE_HASH, name, version};                    \
    OTTAVA_EXTERN_C OTTAVA_EXPORT int32_t ottava_driver_entry_v1(const ottava_host_v1* host,                    \
                                                                 const ottava_driver_v1** out,                  \
                                                                 ottava_error_v1* err) {                        \
        if (err && (err->size != sizeof(*err) || err->kind != OTTAVA_KIND_ERROR)) return OTTAVA_INVALID_ARGUMENT; \
        if (!host || !out || host->size != sizeof(*host) || host->kind != OTTAVA_KIND_HOST)                      \
            return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "entry: host or out is not what it should be");    \
        return (entry)(host, out, err);                                                                         \
    }

#endif /* OTTAVA_DRIVER_H */
