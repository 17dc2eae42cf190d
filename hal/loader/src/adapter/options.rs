//! Options: the driver's schema, and the check of an application's options before the driver sees them.

use super::error::broken;
use crate::foreign;
use ottava_abi::{KeyValueV1, OptionV1, Slice, Str, option_type};
use ottava_hal::device::OptionSpec;
use ottava_hal::{Error, Options, Result};

/// More allowed values than this are not read.
const MAX_ALLOWED: u64 = 1024;

/// An option with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypedOption {
    /// What the host knows of it.
    pub spec: OptionSpec,
    /// `OTTAVA_OPTION_*`.
    pub value_type: u32,
}

/// Reads one entry of a driver's schema.
pub(crate) fn read(driver: &str, raw: &OptionV1) -> Result<TypedOption> {
    let bad = |e: String| broken(driver, "option_schema", e);
    let text = |t: Str| foreign::text(t).map_err(bad);
    let allowed = foreign::elements(raw.allowed, MAX_ALLOWED).map_err(bad)?;
    let mut allowed = allowed.into_iter().map(text).collect::<Result<Vec<_>>>()?;
    if raw.value_type == option_type::BOOL && allowed.is_empty() {
        allowed = vec!["true".into(), "false".into()];
    }
    let (key, default, help) = (text(raw.key)?, text(raw.default_value)?, text(raw.help)?);
    if key.is_empty() {
        return Err(bad("an option has no key".into()));
    }
    Ok(TypedOption { spec: OptionSpec { key, default, allowed, help, tune: Vec::new() }, value_type: raw.value_type })
}

/// Refuses unknown keys and values of the wrong form.
pub(crate) fn check(device: &str, options: &Options, schema: &[TypedOption]) -> Result<()> {
    for (key, value) in options {
        let Some(option) = schema.iter().find(|o| o.spec.key == *key) else {
            let known: Vec<&str> = schema.iter().map(|o| o.spec.key.as_str()).collect();
            let known =
                if known.is_empty() { "it has none".to_owned() } else { format!("it has: {}", known.join(", ")) };
            return Err(Error::invalid(format!("device `{device}` has no option `{key}`; {known}")));
        };
        check_value(device, value, option)?;
    }
    Ok(())
}

fn check_value(device: &str, value: &str, option: &TypedOption) -> Result<()> {
    let key = &option.spec.key;
    let bad = |expected: String| {
        Err(Error::invalid(format!("option `{key}` of device `{device}` is \"{value}\", expected {expected}")))
    };
    let allowed = &option.spec.allowed;
    if !allowed.is_empty() && !allowed.iter().any(|a| a == value) {
        return bad(allowed.join(", "));
    }
    match option.value_type {
        option_type::INT if value.parse::<i64>().is_err() => bad("a whole number".into()),
        option_type::FLOAT if value.parse::<f64>().is_err() => bad("a number".into()),
        _ => Ok(()),
    }
}

/// The options as the driver reads them; they borrow from `options`.
pub(crate) fn pairs(options: &Options) -> Vec<KeyValueV1> {
    options.iter().map(|(k, v)| KeyValueV1 { key: Str::borrowed(k), value: Str::borrowed(v) }).collect()
}

/// The slice of [`pairs`].
pub(crate) fn slice(pairs: &[KeyValueV1]) -> Slice<KeyValueV1> {
    Slice::borrowed(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Vec<TypedOption> {
        let typed = |key: &'static str, value_type, allowed: &[Str]| {
            let (key, default_value, help) = (Str::new(key), Str::new("1"), Str::new("help"));
            let allowed = Slice::borrowed(allowed);
            let raw = OptionV1 { key, value_type, default_value, allowed, help, ..OptionV1::blank() };
            read("acme", &raw).unwrap()
        };
        vec![
            typed("threads", option_type::INT, &[]),
            typed("mode", option_type::ENUM, &[Str::new("fast"), Str::new("exact")]),
            typed("trace", option_type::BOOL, &[]),
        ]
    }

    #[test]
    fn keys_and_values_are_checked() {
        let check = |k: &str, v: &str| {
            let options = Options::from([(k.to_owned(), v.to_owned())]);
            check("npu0", &options, &schema()).map_err(|e| e.to_string())
        };
        assert_eq!(check("threads", "4"), Ok(()));
        assert_eq!(check("mode", "exact"), Ok(()));
        assert!(check("thread", "4").unwrap_err().contains("it has: threads, mode, trace"));
        assert!(check("threads", "many").unwrap_err().contains("expected a whole number"));
        assert!(check("mode", "slow").unwrap_err().contains("expected fast, exact"));
        assert!(check("trace", "1").unwrap_err().contains("expected true, false"));
    }

    #[test]
    fn a_schema_with_holes_is_the_drivers_fault() {
        let e = read("acme", &OptionV1::blank()).unwrap_err();
        assert!(e.to_string().contains("no key"), "{e}");
        let text = Str { ptr: std::ptr::null(), len: 4 };
        let e = read("acme", &OptionV1 { key: text, ..OptionV1::blank() }).unwrap_err();
        assert!(e.to_string().contains("NULL"), "{e}");
    }
}
