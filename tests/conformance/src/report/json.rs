//! `report.json`.

use super::Report;
use crate::Ending;
use serde_json::{Map, Value, json};

/// Version of the document; it grows when the meaning of a field changes.
pub const SCHEMA: u32 = 1;

/// The report as one JSON document.
pub fn to_json(report: &Report) -> Value {
    let mut doc = Map::new();
    doc.insert("schema".into(), SCHEMA.into());
    doc.insert("conformant".into(), report.is_conformant().into());
    doc.insert("verdict".into(), report.verdict().into());
    for ending in Ending::ALL {
        doc.insert(ending.name().into(), report.count(ending).into());
    }
    doc.insert("seconds".into(), report.seconds.into());
    if let Some(list) = &report.regressions {
        let one = |r: &super::Regression| json!({ "group": r.group, "name": r.name, "was": r.was, "is": r.is });
        doc.insert("regressions".into(), list.iter().map(one).collect());
    }
    doc.insert("submission".into(), submission(report));
    doc.insert("remarks".into(), report.remarks.clone().into());
    let case = |o: &crate::Outcome| {
        json!({
            "group": o.group, "name": o.name, "result": o.result.name(), "detail": o.detail, "millis": o.millis,
            "repro": report.repros.get(&o.name), "cause": report.causes.get(&o.name),
        })
    };
    doc.insert("cases".into(), report.outcomes.iter().map(case).collect());
    doc.insert("coverage".into(), json!(report.coverage));
    Value::Object(doc)
}

fn submission(report: &Report) -> Value {
    let h = &report.header;
    let library = h.library.as_ref().map(|l| {
        let range = l.abi_range.map(|(lo, hi)| json!({ "min": lo, "max": hi }));
        json!({ "file": l.file, "sha256": l.sha256, "abi_range": range, "doors": l.doors })
    });
    let system: Map<String, Value> = h.system.iter().map(|(k, v)| ((*k).to_owned(), v.clone().into())).collect();
    json!({
        "driver": h.facts, "library": library, "suite": h.suite, "profile": h.profile, "filter": h.filter,
        "seed": h.seed, "stress": h.stress, "timeout_s": h.timeout_s, "command": h.command, "system": system,
        "date": h.date, "unsupported": h.expectations.unsupported,
        "expected_failures": h.expectations.expected_failures,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{EVIL, report};
    use super::*;

    #[test]
    fn every_key_of_the_contract_is_there() {
        let doc = to_json(&report());
        for key in ["passed", "failed", "crashed", "hung", "skipped", "unsupported", "xfail", "xpass"] {
            assert_eq!(doc[key], 1, "{key}");
        }
        let case = &doc["cases"][1];
        assert_eq!((&case["result"], &case["detail"]), (&json!("failed"), &json!(EVIL)));
        assert_eq!(case["repro"], "repro/dev.open_close.1.orepro");
        assert!(doc["cases"][0]["repro"].is_null() && doc["schema"] == SCHEMA && doc["submission"]["seed"] == 7);
    }
}
