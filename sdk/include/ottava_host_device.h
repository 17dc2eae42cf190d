/* ottava_host_device.h: what every device does that works in host memory and finishes inside submit.
 *
 * OTTAVA_HOST_DEVICE begins the initializer of such a device's table: buffers, copies, and polite refusals of what the
 * device does not have (fences, blobs, reset, extensions). A driver adds close, op_table, assess, estimate, compile,
 * exec_io, exec_release and submit. It is written by hand over ottava_driver.h and no part of the ABI.
 */
#ifndef OTTAVA_HOST_DEVICE_H
#define OTTAVA_HOST_DEVICE_H

#include "ottava_driver.h"
#include <stdlib.h>

/* Memory of the driver, or of the host if `owned` is 0. */
typedef struct {
    uint8_t* ptr;
    uint64_t len;
    int owned;
} ottava_host_buffer;

#define OTTAVA_HOST_ALIGNMENT 64u

/* The one memory type of such a device. */
#define OTTAVA_HOST_MEMORY                                                                                         \
    {OTTAVA_MEMORY_HOST_VISIBLE | OTTAVA_MEMORY_COHERENT | OTTAVA_MEMORY_CACHED, 0, OTTAVA_HOST_ALIGNMENT,         \
     OTTAVA_HANDLE_HOST_POINTER, 0}

/* 16 bytes that stand for a driver's device, the same on every machine: FNV-1a of both names from two start values. */
static inline void ottava_host_uuid(uint8_t uuid[16], const char* driver, const char* device) {
    const uint64_t start[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};
    for (int half = 0; half < 2; half++) {
        uint64_t hash = start[half];
        for (const char* c = driver; *c; c++) hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
        hash = (hash ^ '/') * UINT64_C(0x100000001b3);
        for (const char* c = device; *c; c++) hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
        memcpy(uuid + 8 * half, &hash, 8);
    }
}

static inline int32_t ottava_host_new(void* ptr, uint64_t len, int owned, ottava_buffer** out, ottava_error_v1* err) {
    ottava_host_buffer* b = (ottava_host_buffer*)malloc(sizeof(ottava_host_buffer));
    if (!b || !ptr) {
        free(b);
        if (owned) free(ptr);
        return ottava_fail(err, OTTAVA_OUT_OF_HOST_MEMORY, "no memory for a buffer");
    }
    b->ptr = (uint8_t*)ptr;
    b->len = len;
    b->owned = owned;
    *out = (ottava_buffer*)b;
    return OTTAVA_OK;
}

static inline int ottava_host_is_desc(const ottava_buffer_desc_v1* desc) {
    return desc && desc->size == sizeof(*desc) && desc->kind == OTTAVA_KIND_BUFFER_DESC && desc->bytes < SIZE_MAX / 2;
}

static inline int32_t ottava_host_alloc(ottava_device* device, const ottava_buffer_desc_v1* desc, ottava_buffer** out,
                                        ottava_error_v1* err) {
    (void)device;
    if (!out || !ottava_host_is_desc(desc)) return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "alloc: desc or out");
    if (desc->alignment > OTTAVA_HOST_ALIGNMENT)
        return ottava_fail(err, OTTAVA_UNSUPPORTED, "buffers are aligned to 64 bytes");
    size_t room = ((size_t)desc->bytes / OTTAVA_HOST_ALIGNMENT + 1) * OTTAVA_HOST_ALIGNMENT;
    void* ptr = aligned_alloc(OTTAVA_HOST_ALIGNMENT, room);
    if (ptr) memset(ptr, 0, room);
    return ottava_host_new(ptr, desc->bytes, 1, out, err);
}

static inline int32_t ottava_host_import(ottava_device* device, void* ptr, uint64_t len,
                                         const ottava_buffer_desc_v1* desc, ottava_buffer** out, ottava_error_v1* err) {
    (void)device;
    if (!out || !ptr || !ottava_host_is_desc(desc) || desc->bytes != len)
        return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "import_host: ptr, len, desc or out");
    return ottava_host_new(ptr, len, 0, out, err);
}

static inline void ottava_host_release(ottava_device* device, ottava_buffer* buffer) {
    ottava_host_buffer* b = (ottava_host_buffer*)buffer;
    (void)device;
    if (b && b->owned) free(b->ptr);
    free(b);
}

/* The bytes of a range of a buffer, or NULL if it is outside. */
static inline uint8_t* ottava_host_bytes(const ottava_buffer* buffer, uint64_t offset, uint64_t len) {
    const ottava_host_buffer* b = (const ottava_host_buffer*)buffer;
    return b && offset <= b->len && len <= b->len - offset ? b->ptr + offset : NULL;
}

static inline int32_t ottava_host_map(ottava_device* device, ottava_buffer* buffer, uint64_t off, uint64_t len,
                                      uint32_t mode, void** out, ottava_error_v1* err) {
    uint8_t* bytes = ottava_host_bytes(buffer, off, len);
    (void)device;
    if (!out || !bytes || mode < OTTAVA_MAP_READ || mode > OTTAVA_MAP_READ_WRITE)
        return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "map: the range is outside the buffer, or mode or out");
    *out = bytes;
    return OTTAVA_OK;
}

static inline int32_t ottava_host_unmap(ottava_device* device, ottava_buffer* buffer, ottava_error_v1* err) {
    (void)device;
    return buffer ? OTTAVA_OK : ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "unmap: buffer is NULL");
}

/* Queues of a device that keeps no state in them. */
static inline int32_t ottava_host_queue_create(ottava_device* device, uint32_t priority, ottava_queue** out,
                                               ottava_error_v1* err) {
    static char queue;
    (void)device, (void)priority;
    if (!out) return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "queue_create: out is NULL");
    *out = (ottava_queue*)&queue;
    return OTTAVA_OK;
}
static inline void ottava_host_queue_release(ottava_device* device, ottava_queue* queue) { (void)device, (void)queue; }

/* Runs a COPY or FILL. */
static inline int32_t ottava_host_move(const ottava_command_v1* c, ottava_error_v1* err) {
    uint8_t* to = ottava_host_bytes(c->dst, c->dst_off, c->len);
    const uint8_t* from = c->op == OTTAVA_COMMAND_COPY ? ottava_host_bytes(c->src, c->src_off, c->len) : NULL;
    uint64_t i;
    if (c->op != OTTAVA_COMMAND_COPY && c->op != OTTAVA_COMMAND_FILL)
        return ottava_fail(err, OTTAVA_UNSUPPORTED, "submit: no such command");
    if (!to || (c->op == OTTAVA_COMMAND_COPY && !from))
        return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "submit: a copy or fill is outside its buffer");
    if (from) memmove(to, from, (size_t)c->len);
    for (i = 0; !from && i < c->len; i++) to[i] = (uint8_t)(c->pattern >> (8 * (i % 4)));
    return OTTAVA_OK;
}

/* What an input or output asks of its binding: row-major bytes anywhere. */
static inline ottava_io_req_v1 ottava_host_io(uint32_t value, uint32_t direction, uint64_t bytes) {
    ottava_io_req_v1 r;
    memset(&r, 0, sizeof r);
    r.size = sizeof r;
    r.kind = OTTAVA_KIND_IO_REQ;
    r.value = value;
    r.direction = direction;
    r.layout = OTTAVA_LAYOUT_ROW_MAJOR;
    r.alignment = 1;
    r.memory_types = 1;
    r.bytes = bytes;
    return r;
}

/* ---- What such a device does not have ---- */

static inline int32_t ottava_no(ottava_error_v1* err, const char* what) {
    return ottava_fail(err, OTTAVA_UNSUPPORTED, what);
}
static inline int32_t ottava_no_reset(ottava_device* d, ottava_error_v1* err) {
    (void)d;
    return ottava_no(err, "the device cannot be reset; open it again");
}
static inline int32_t ottava_no_serialize(ottava_device* d, ottava_exec* e, uint8_t* buf, uint64_t cap, uint64_t* len,
                                          ottava_error_v1* err) {
    (void)d, (void)e, (void)buf, (void)cap, (void)len;
    return ottava_no(err, "the device cannot save executables");
}
static inline int32_t ottava_no_deserialize(ottava_device* d, const ottava_blob_key_v1* key, const uint8_t* bytes,
                                            uint64_t len, ottava_exec** out, ottava_error_v1* err) {
    (void)d, (void)key, (void)bytes, (void)len, (void)out;
    return ottava_no(err, "the device cannot load executables");
}
static inline int32_t ottava_no_fence_create(ottava_device* d, uint64_t initial, ottava_fence** out,
                                             ottava_error_v1* err) {
    (void)d, (void)initial, (void)out;
    return ottava_no(err, "the device finishes inside submit and has no fences");
}
static inline void ottava_no_fence_release(ottava_device* d, ottava_fence* f) { (void)d, (void)f; }
static inline int32_t ottava_no_fence_query(ottava_device* d, ottava_fence* f, uint64_t* value, int32_t* failure) {
    (void)d, (void)f, (void)value, (void)failure;
    return OTTAVA_UNSUPPORTED;
}
static inline int32_t ottava_no_fence_wait(ottava_device* d, ottava_fence* f, uint64_t value, uint64_t timeout_ns,
                                           ottava_error_v1* err) {
    (void)d, (void)f, (void)value, (void)timeout_ns;
    return ottava_no(err, "the device has no fences");
}
static inline int32_t ottava_no_fence_signal(ottava_device* d, ottava_fence* f, uint64_t value, ottava_error_v1* err) {
    (void)d, (void)f, (void)value;
    return ottava_no(err, "the device has no fences");
}
static inline int32_t ottava_no_fence_fail(ottava_device* d, ottava_fence* f, int32_t code, ottava_error_v1* err) {
    (void)d, (void)f, (void)code;
    return ottava_no(err, "the device has no fences");
}
static inline int32_t ottava_no_fence_notify(ottava_device* d, ottava_fence* f, uint64_t value,
                                             void (*done)(void* user, int32_t code), void* user, ottava_error_v1* err) {
    (void)d, (void)f, (void)value, (void)done, (void)user;
    return ottava_no(err, "the device has no fences");
}
static inline int32_t ottava_no_device_extension(ottava_device* d, ottava_str name, ottava_ext_v1* out) {
    (void)d, (void)name, (void)out;
    return OTTAVA_NOT_FOUND;
}
static inline int32_t ottava_no_extension(void* ctx, ottava_str name, ottava_ext_v1* out) {
    (void)ctx, (void)name, (void)out;
    return OTTAVA_NOT_FOUND;
}
/* Enumerates the only device of a driver. An element may be longer than this header knows, never shorter. */
static inline int32_t ottava_host_one_device(const ottava_device_info_v1* info, uint32_t cap,
                                             ottava_device_info_v1* out, uint32_t* count, ottava_error_v1* err) {
    if (!count || (cap && !out)) return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "enumerate: out or count is NULL");
    *count = 1;
    if (!cap) return OTTAVA_OK;
    if (out->size < sizeof(*out) || out->kind != OTTAVA_KIND_DEVICE_INFO)
        return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "enumerate: size or kind of an element");
    uint32_t size = out->size;
    *out = *info;
    out->size = size;
    return OTTAVA_OK;
}
static inline int32_t ottava_no_options(void* ctx, uint32_t cap, ottava_option_v1* out, uint32_t* count,
                                        ottava_error_v1* err) {
    (void)ctx, (void)cap, (void)out;
    if (!count) return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "option_schema: count is NULL");
    *count = 0;
    return OTTAVA_OK;
}
static inline int32_t ottava_no_blobs(void* ctx, const ottava_blob_key_v1* key, uint32_t* verdict,
                                      ottava_error_v1* err) {
    (void)ctx, (void)key;
    if (!verdict) return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "check_blob: verdict is NULL");
    *verdict = OTTAVA_BLOB_INCOMPATIBLE;
    ottava_fail(err, OTTAVA_OK, "the driver does not load executables");
    return OTTAVA_OK;
}

/* The beginning of a device's table. */
#define OTTAVA_HOST_DEVICE                                                                                         \
    .size = sizeof(ottava_device_vtbl_v1), .kind = OTTAVA_KIND_DEVICE_VTBL, .reset = ottava_no_reset,              \
    .serialize = ottava_no_serialize, .deserialize = ottava_no_deserialize, .alloc = ottava_host_alloc,            \
    .queue_create = ottava_host_queue_create, .queue_release = ottava_host_queue_release,                          \
    .import_host = ottava_host_import, .buffer_release = ottava_host_release, .map = ottava_host_map,              \
    .unmap = ottava_host_unmap, .fence_create = ottava_no_fence_create, .fence_release = ottava_no_fence_release,  \
    .fence_query = ottava_no_fence_query, .fence_wait = ottava_no_fence_wait,                                      \
    .fence_signal = ottava_no_fence_signal, .fence_fail = ottava_no_fence_fail,                                    \
    .fence_notify = ottava_no_fence_notify, .query_extension = ottava_no_device_extension

/* The refusals of a driver without options, blobs and extensions. */
#define OTTAVA_PLAIN_DRIVER                                                                                        \
    .size = sizeof(ottava_driver_v1), .kind = OTTAVA_KIND_DRIVER, .option_schema = ottava_no_options,              \
    .check_blob = ottava_no_blobs, .query_extension = ottava_no_extension

/* Note and entry of a driver whose table is a constant. */
#define OTTAVA_EXPORT_TABLE(name, version, table)                                                                  \
    static int32_t ottava_host_entry(const ottava_host_v1* host, const ottava_driver_v1** out, ottava_error_v1* err) { \
        (void)host, (void)err;                                                                                     \
        *out = &(table);                                                                                           \
        return OTTAVA_OK;                                                                                          \
    }                                                                                                              \
    OTTAVA_EXPORT_DRIVER(name, version, ottava_host_entry)

#endif /* OTTAVA_HOST_DEVICE_H */
