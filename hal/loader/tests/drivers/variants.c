/* Drivers with one thing wrong each, made of the C template. Exactly one VARIANT_* is defined by the test. */
#include "ottava_host_device.h"
#include <stdio.h>
#undef OTTAVA_EXPORT_DRIVER
#define OTTAVA_EXPORT_DRIVER(name, version, entry)
#include "my_driver.c"

#ifndef NOTE_MAJOR
#define NOTE_MAJOR OTTAVA_ABI_MAJOR
#endif
#ifndef NOTE_HASH
#define NOTE_HASH OTTAVA_CORE_HASH
#endif

OTTAVA_EXPORT OTTAVA_SECTION const ottava_abi_note_v1 ottava_abi_note = {
    {'O', 'T', 'T', 'A', 'V', 'A', 'v', '1'}, NOTE_MAJOR, NOTE_MAJOR, OTTAVA_ABI_MAJOR, OTTAVA_ABI_MINOR,
    OTTAVA_ABI_PATCH, OTTAVA_DOOR_C, NOTE_HASH, "variant", "0.1.0"};

#define ENTRY                                                                                                \
    OTTAVA_EXPORT int32_t ottava_driver_entry_v1(const ottava_host_v1* host, const ottava_driver_v1** out,   \
                                                 ottava_error_v1* err)

static ottava_device_vtbl_v1 vtbl;
static ottava_driver_v1 driver;

/* A copy of the template's tables, to be changed. */
static void copy_tables(const ottava_driver_v1** out) {
    vtbl = VTBL;
    driver = DRIVER;
    driver.name.ptr = "variant", driver.name.len = 7;
    driver.device = &vtbl;
    *out = &driver;
}

#ifdef VARIANT_NO_ENTRY
int unused_variant;
#else
static int32_t bad_submit(ottava_device* d, ottava_queue* q, const ottava_submit_v1* s, ottava_error_v1* err);
static int32_t silent_assess(ottava_device* d, const ottava_program_v1* p, ottava_slice_mut out, ottava_error_v1* err);
static int32_t odd_enumerate(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count, ottava_error_v1* err);
static int32_t odd_info(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count, ottava_error_v1* err);
static int32_t mapped_enumerate(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count, ottava_error_v1* err);
static int32_t null_compile(ottava_device* d, const ottava_program_v1* p, const ottava_compile_opts_v1* o, ottava_exec** out,
                            ottava_error_v1* err);
static int32_t odd_io(ottava_device* d, ottava_exec* exec, uint32_t cap, ottava_io_req_v1* out, uint32_t* count,
                      ottava_error_v1* err);
static int32_t odd_rows(ottava_device* d, ottava_slice* rows);
static int32_t odd_status(ottava_device* d, const ottava_program_v1* p, ottava_cost_v1* out, ottava_error_v1* err);
static int32_t reset(ottava_device* d, ottava_error_v1* err);
static void log_shutdown(void* ctx);
extern int32_t nobody_has_this_function(void);

static const ottava_host_v1* the_host;

ENTRY {
    the_host = host;
    (void)err;
    copy_tables(out);
#if defined(VARIANT_NULL_COMPILE)
    vtbl.compile = NULL;
#elif defined(VARIANT_NULL_TABLE)
    driver.device = NULL;
#elif defined(VARIANT_NO_TABLE)
    *out = NULL;
#elif defined(VARIANT_WRONG_SIZE)
    driver.size += 8;
#elif defined(VARIANT_NO_NAME)
    driver.name.ptr = NULL;
#elif defined(VARIANT_UNDEFINED)
    return nobody_has_this_function();
#elif defined(VARIANT_FAILS)
    ottava_fail(err, OTTAVA_NOT_FOUND, "the kernel module acme_npu is not loaded");
    err->vendor_code = 17;
    return OTTAVA_NOT_FOUND;
#elif defined(VARIANT_SUBMIT)
    vtbl.submit = bad_submit;
    vtbl.reset = reset;
#elif defined(VARIANT_SILENT)
    vtbl.assess = silent_assess;
#elif defined(VARIANT_DEVICES)
    driver.enumerate = odd_enumerate;
#elif defined(VARIANT_ODD_INFO)
    driver.enumerate = odd_info;
#elif defined(VARIANT_MAPPED)
    driver.enumerate = mapped_enumerate;
#elif defined(VARIANT_NULL_EXEC)
    vtbl.compile = null_compile;
#elif defined(VARIANT_ODD_IO)
    vtbl.exec_io = odd_io;
#elif defined(VARIANT_ODD_ROWS)
    vtbl.op_table = odd_rows;
#elif defined(VARIANT_ODD_STATUS)
    vtbl.estimate = odd_status;
#elif defined(VARIANT_SHUTDOWN)
    driver.shutdown = log_shutdown;
#endif
    return OTTAVA_OK;
}

/* The third submission loses the device, the others run out of memory. */
static int32_t bad_submit(ottava_device* d, ottava_queue* q, const ottava_submit_v1* s, ottava_error_v1* err) {
    static int calls;
    (void)d, (void)q, (void)s;
    calls++;
    if (calls == 3) return ottava_fail(err, OTTAVA_DEVICE_LOST, "the cable is out");
    if (calls > 3) return submit(d, q, s, err);
    ottava_fail(err, OTTAVA_OUT_OF_DEVICE_MEMORY, calls == 1 ? "no room for 3 GiB" : "");
    err->vendor_code = -7;
    err->flags = OTTAVA_ERROR_TRANSIENT;
    return OTTAVA_OUT_OF_DEVICE_MEMORY;
}

static int32_t reset(ottava_device* d, ottava_error_v1* err) {
    (void)d, (void)err;
    return OTTAVA_OK;
}

static int32_t silent_assess(ottava_device* d, const ottava_program_v1* p, ottava_slice_mut out, ottava_error_v1* err) {
    (void)d, (void)p, (void)out, (void)err;
    return OTTAVA_OK;
}

static int32_t odd_enumerate(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count, ottava_error_v1* err) {
    (void)ctx, (void)cap, (void)out, (void)err;
    *count = UINT32_MAX;
    return OTTAVA_OK;
}

/* The same device, whose memory cannot be imported. */
static int32_t mapped_enumerate(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count,
                                ottava_error_v1* err) {
    int32_t code = enumerate(ctx, cap, out, count, err);
    if (cap) out->memory_types[0].import_mask = 0;
    return code;
}

/* The first listing, when the driver is loaded, is right; then the prefix is wrong, then there are too many memories. */
static int32_t odd_info(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count, ottava_error_v1* err) {
    static int calls;
    int32_t code = enumerate(ctx, cap, out, count, err);
    if (cap) calls++;
    if (cap && calls == 2) out->size = 4;
    if (cap && calls == 3) out->n_memory_types = 9;
    return code;
}

static int32_t null_compile(ottava_device* d, const ottava_program_v1* p, const ottava_compile_opts_v1* o,
                            ottava_exec** out, ottava_error_v1* err) {
    (void)d, (void)p, (void)o, (void)out, (void)err;
    return OTTAVA_OK;
}

/* The first call wants the wrong number of bindings, the second one the wrong size, and so on. */
static int32_t odd_io(ottava_device* d, ottava_exec* exec, uint32_t cap, ottava_io_req_v1* out, uint32_t* count,
                      ottava_error_v1* err) {
    static int calls;
    int32_t code = exec_io(d, exec, cap, out, count, err);
    if (cap) calls++;
    if (cap && calls == 1) *count = 1;
    if (cap && calls == 2) out[1].bytes++;
    if (cap && calls == 3) out[0].alignment = 3;
    if (cap && calls == 4) out[0].layout = OTTAVA_LAYOUT_BLOCKED;
    if (cap && calls == 5) out[0].value = 7;
    if (cap && calls == 6) out[1].size = 4;
    return code;
}

static int32_t odd_rows(ottava_device* d, ottava_slice* rows) {
    int32_t code = op_table(d, rows);
    rows->len = UINT64_MAX;
    return code;
}

static int32_t odd_status(ottava_device* d, const ottava_program_v1* p, ottava_cost_v1* out, ottava_error_v1* err) {
    (void)d, (void)p, (void)out;
    ottava_fail(err, 77, "the moon is in the wrong phase");
    err->node = 0;
    return 77;
}

/* Leaves a file beside the library. */
static void log_shutdown(void* ctx) {
    char path[4096] = {0};
    (void)ctx;
    if (the_host->plugin_dir.len + 16 > sizeof path) return;
    memcpy(path, the_host->plugin_dir.ptr, the_host->plugin_dir.len);
    strcat(path, "/was_shut_down");
    FILE* file = fopen(path, "w");
    if (file) fclose(file);
}
#endif
