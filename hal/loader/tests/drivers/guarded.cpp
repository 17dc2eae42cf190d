// A C++ driver without devices' work: `option_schema` throws, and OTTAVA_GUARD turns the exception into a status.
#include "ottava_driver.h"
#include <stdexcept>

static int32_t enumerate(void*, uint32_t, ottava_device_info_v1*, uint32_t* count, ottava_error_v1*) {
    *count = 0;
    return OTTAVA_OK;
}

static int32_t check_blob(void*, const ottava_blob_key_v1*, uint32_t*, ottava_error_v1* err) {
    OTTAVA_GUARD(err, {
        throw std::runtime_error("thrown in check_blob");
        return OTTAVA_OK;
    })
}

static int32_t option_schema(void*, uint32_t, ottava_option_v1*, uint32_t* count, ottava_error_v1*) {
    *count = 0;
    return OTTAVA_OK;
}

static int32_t open(void*, const uint8_t*, ottava_slice, ottava_device**, ottava_error_v1* err) {
    OTTAVA_GUARD(err, { throw 42; })
}

static int32_t query_extension(void*, ottava_str, ottava_ext_v1*) { return OTTAVA_NOT_FOUND; }
static void shutdown(void*) {}

// No device is ever opened, so one function stands for all of them.
static int32_t never(void) { return OTTAVA_INTERNAL; }

static int32_t entry(const ottava_host_v1*, const ottava_driver_v1** out, ottava_error_v1*) {
    static ottava_device_vtbl_v1 vtbl;
    static ottava_driver_v1 driver;
    vtbl.size = sizeof vtbl, vtbl.kind = OTTAVA_KIND_DEVICE_VTBL;
    auto first = reinterpret_cast<int32_t (**)()>(reinterpret_cast<char*>(&vtbl) + 8);
    for (size_t i = 0; i < (sizeof vtbl - 8) / sizeof(void*); i++) first[i] = never;
    driver.size = sizeof driver, driver.kind = OTTAVA_KIND_DRIVER;
    driver.name = {"guarded", 7}, driver.vendor = {"me", 2}, driver.version = {"1", 1};
    driver.device = &vtbl;
    driver.enumerate = enumerate, driver.option_schema = option_schema, driver.open = open;
    driver.check_blob = check_blob, driver.query_extension = query_extension, driver.shutdown = shutdown;
    *out = &driver;
    return OTTAVA_OK;
}
OTTAVA_EXPORT_DRIVER("guarded", "1", entry)
