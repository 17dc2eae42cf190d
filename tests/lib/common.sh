# Shared by run.sh and full.sh: steps, skips, the Python environment.

step() { printf '\n== %s (%s)\n' "$1" "$(date +%H:%M:%S)"; }

note_skip() { printf '%s: %s\n' "$1" "$2" >>"$OTTAVA_SKIP_LOG"; }

# Whether a component of the toolchain is installed; tries to add it, and counts the check as skipped otherwise.
have_component() {
    cargo "${1/rustfmt/fmt}" --version >/dev/null 2>&1 && return 0
    rustup component add "$1" >/dev/null 2>&1 && return 0
    note_skip "$1" "the toolchain has no $1 and it cannot be added"
    return 1
}

# Prints the path of a Python that has numpy, onnx and onnxruntime; nothing if there is none and none can be made.
python_with_onnxruntime() {
    local venv=${OTTAVA_VENV:-target/test-venv} check='import numpy, onnx, onnxruntime'
    for candidate in "${OTTAVA_PYTHON:-}" "$venv/bin/python" python3; do
        if [ -n "$candidate" ] && "$candidate" -c "$check" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    python3 -m venv "$venv" >/dev/null 2>&1 || return 0
    "$venv/bin/pip" install --quiet numpy onnx onnxruntime >/dev/null 2>&1 || return 0
    # Optional: what needs it is skipped without.
    "$venv/bin/pip" install --quiet openvino >/dev/null 2>&1 || true
    "$venv/bin/python" -c "$check" >/dev/null 2>&1 && realpath -s "$venv/bin/python"
}

# Prints the path of a Python that has numpy and ai-edge-litert; nothing if there is none and none can be made.
python_with_litert() {
    local venv=${OTTAVA_LITERT_VENV:-target/litert-venv} check='import numpy, ai_edge_litert.interpreter'
    for candidate in "${OTTAVA_LITERT_PYTHON:-}" "$venv/bin/python" "${OTTAVA_PYTHON:-}" python3; do
        if [ -n "$candidate" ] && "$candidate" -c "$check" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    python3 -m venv "$venv" >/dev/null 2>&1 || return 0
    "$venv/bin/pip" install --quiet numpy ai-edge-litert >/dev/null 2>&1 || return 0
    "$venv/bin/python" -c "$check" >/dev/null 2>&1 && realpath -s "$venv/bin/python"
}

# Installs software drivers for Vulkan (Mesa's lavapipe, with the validation layers) and OpenCL (PoCL) where Debian packages
# can be installed, and pins them: the tests see these devices and no others, and keep their caches in a folder of their own.
software_gpus() {
    local packages='libvulkan1 mesa-vulkan-drivers vulkan-validationlayers glslang-tools ocl-icd-libopencl1 pocl-opencl-icd'
    # shellcheck disable=SC2086 # A list of words.
    if ! dpkg -s $packages >/dev/null 2>&1; then
        local as_root=
        [ "$(id -u)" = 0 ] || as_root='sudo -n'
        { $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq $packages; } \
            >/dev/null 2>&1 || note_skip "software Vulkan and OpenCL" "the Debian packages cannot be installed"
    fi
    local icd
    for icd in /usr/share/vulkan/icd.d/lvp_icd*.json; do
        # The second name is that of older loaders.
        [ -f "$icd" ] && export VK_DRIVER_FILES=$icd VK_ICD_FILENAMES=$icd
    done
    [ -f /etc/OpenCL/vendors/pocl.icd ] && export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
    POCL_CACHE_DIR=$(mktemp -d)
    export POCL_CACHE_DIR
}

print_skips() {
    local n
    n=$(sort -u "$OTTAVA_SKIP_LOG" | wc -l)
    printf '\n%s tests or parts of tests were skipped' "$n"
    if [ "$n" -gt 0 ]; then
        printf ':\n'
        sort -u "$OTTAVA_SKIP_LOG" | sed 's/^/  /'
    else
        printf '.\n'
    fi
}
