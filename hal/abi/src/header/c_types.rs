//! Rust types of the tables in the spelling of C.

/// The declaration of `name` with the C form of the Rust type `ty`, without a semicolon.
pub fn declare(ty: &str, name: &str) -> String {
    // The compiler breaks long types into lines where it turns them into text.
    let ty = &ty.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(function) = ty.strip_prefix("unsafe extern \"C\" fn") {
        return function_pointer(function, name);
    }
    if ty == "NotifyFn" {
        return format!("void (*{name})(void* user, int32_t code)");
    }
    match array(ty) {
        Some((element, len)) => format!("{} {name}[{len}]", plain(element)),
        None => format!("{} {name}", plain(ty)),
    }
}

/// What a slice holds, in the spelling of C.
pub fn slice_element(ty: &str) -> Option<String> {
    let inner = ty.trim().strip_prefix("Slice").and_then(|t| t.strip_prefix("Mut").or(Some(t)))?;
    inner.trim().strip_prefix('<')?.strip_suffix('>').map(plain)
}

/// `(a: T, b: U) -> R` as a pointer with this name.
fn function_pointer(signature: &str, name: &str) -> String {
    let signature = signature.trim();
    let close = signature.rfind(')').unwrap_or(signature.len());
    let result = signature[close..].trim_start_matches(')').trim().trim_start_matches("->");
    let result = if result.is_empty() { "void".into() } else { plain(result) };
    let parameters = split(signature[..close].trim_start_matches('('));
    let parameters: Vec<_> =
        parameters.iter().filter_map(|p| p.split_once(':')).map(|(n, t)| parameter(t, n)).collect();
    format!("{result} (*{name})({})", parameters.join(", "))
}

/// A parameter: a pointer to an array is written as an array.
fn parameter(ty: &str, name: &str) -> String {
    match ty.trim().strip_prefix("*const ").and_then(array) {
        Some((element, len)) => format!("const {} {}[{len}]", plain(element), name.trim()),
        None => declare(ty, name.trim()),
    }
}

/// Parts between commas that are inside no bracket.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in list.char_indices() {
        match c {
            '<' | '[' | '(' => depth += 1,
            '>' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

fn array(ty: &str) -> Option<(&str, &str)> {
    let (element, len) = ty.trim().strip_prefix('[')?.strip_suffix(']')?.rsplit_once(';')?;
    Some((element.trim(), len.trim()))
}

/// A type that needs no name in its middle.
fn plain(ty: &str) -> String {
    let ty = ty.trim();
    if let Some(inner) = ty.strip_prefix("*const ") {
        return format!("const {}*", plain(inner));
    }
    if let Some(inner) = ty.strip_prefix("*mut ") {
        return format!("{}*", plain(inner));
    }
    let fixed = match ty.split('<').next().unwrap_or(ty).trim() {
        "u8" => "uint8_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i32" => "int32_t",
        "i64" => "int64_t",
        "f32" => "float",
        "f64" => "double",
        "Char" => "char",
        "c_void" | "T" => "void",
        name => return format!("ottava_{}", snake(name)),
    };
    fixed.into()
}

/// `DeviceVtblV1` as `device_vtbl_v1`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_c_spelling() {
        let cases = [
            ("u64", "uint64_t x"),
            ("[Char; 64]", "char x[64]"),
            ("*const c_void", "const void* x"),
            ("*mut *const DriverV1", "const ottava_driver_v1** x"),
            ("Slice<OpRowV1>", "ottava_slice x"),
            ("SliceMut < VerdictV1 >", "ottava_slice_mut x"),
            ("[MemoryTypeV1; 8]", "ottava_memory_type_v1 x[8]"),
            ("unsafe extern \"C\" fn(device: *mut Device)", "void (*x)(ottava_device* device)"),
            (
                "unsafe extern \"C\" fn(uuid: *const [u8; 16], o: Slice<KeyValueV1>, d: NotifyFn) -> i32",
                "int32_t (*x)(const uint8_t uuid[16], ottava_slice o, void (*d)(void* user, int32_t code))",
            ),
        ];
        for (rust, c) in cases {
            assert_eq!(declare(rust, "x"), c, "{rust}");
        }
        assert_eq!(slice_element("SliceMut<VerdictV1>").as_deref(), Some("ottava_verdict_v1"));
        assert_eq!(slice_element("Str"), None);
    }
}
