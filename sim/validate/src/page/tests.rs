//! Structure, escaping and size of whole pages.

use super::*;

const EVIL: &str = "</script><img src=x onerror=\"alert(1)\">&'";

fn text() -> String {
    EVIL.to_owned()
}

/// A page where every text of the data is hostile.
fn evil() -> Page {
    let span = |kind| Span { name: text(), start_ns: 5, duration_ns: 100, kind };
    Page {
        title: text(),
        subtitle: text(),
        verdicts: vec![Verdict { status: Status::Bad, text: text() }],
        figures: vec![Figure { label: text(), value: text(), note: text() }],
        accuracy: vec![Accuracy { name: text(), metric: text(), value: f64::NAN, is_share: true, samples: 1 }],
        partitions: vec![PartitionRow { device: text(), nodes: 0, bridges: vec![text()] }],
        placement: vec![PlacedNode { node: text(), op: text(), device: text(), reason: text(), cost_ns: None }],
        timeline: vec![Track { device: text(), spans: vec![span(SpanKind::Compute), span(SpanKind::Wait)] }],
        layers: vec![LayerError {
            name: text(),
            device: text(),
            sqnr_db: f64::NAN,
            cosine: 0.5,
            max_abs: f64::INFINITY,
        }],
        roofline: Some(Roof { chip: text(), macs_per_cycle: f64::NAN, ..Roof::default() }),
        cycles: vec![
            ChipLayer {
                name: text(),
                macs: u64::MAX,
                bytes: 1,
                on_vector_unit: true,
                busy: u64::MAX,
                stalls: vec![(text(), u64::MAX)],
            },
            ChipLayer { name: text(), ..ChipLayer::default() },
        ],
        sweep: vec![
            SweepPoint {
                name: text(),
                roof: Some(0.0),
                energy_pj: Some(f64::INFINITY),
                on_front: true,
                ..SweepPoint::default()
            },
            SweepPoint { name: text(), reason: text(), ..SweepPoint::default() },
        ],
        npu: vec![NpuLayer { layer: text(), cycles: u64::MAX, utilization: f64::NAN }],
        precision: vec![NodePrecision { node: text(), op: text(), precision: text(), macs: u64::MAX, reason: text() }],
        ranges: vec![TensorRange {
            name: text(),
            dtype: text(),
            scale: f64::NAN,
            zero_point: i64::MIN,
            lo: f64::NEG_INFINITY,
            hi: f64::NAN,
            observer: text(),
        }],
        recipe: text(),
        sections: vec![Section {
            title: text(),
            lead: text(),
            columns: vec![SectionColumn { name: text(), is_number: true }, SectionColumn::default()],
            rows: vec![vec![Cell { text: text(), mark: Mark::Bad, link: Some(text()) }, Cell::default()]],
        }],
        notes: vec![text()],
    }
}

/// A page of a large network: `n` nodes on two devices, eight inferences.
fn large(n: u64) -> Page {
    let device = |i: u64| if i.is_multiple_of(3) { "cpu0" } else { "npu0" }.to_owned();
    let name = |i: u64| format!("/model/features/block.{i}/conv/Conv_quant");
    let reason = "cheapest: 12.3 µs here, 45.6 µs on cpu0; bridges would cost 3.2 µs".to_owned();
    let span = |i: u64| Span { name: name(i), start_ns: i * 1000, duration_ns: 700, kind: SpanKind::Compute };
    Page {
        title: "large".to_owned(),
        placement: (0..n)
            .map(|i| PlacedNode {
                node: name(i),
                op: "QLinearConv".to_owned(),
                device: device(i),
                reason: reason.clone(),
                cost_ns: Some(i * 97),
            })
            .collect(),
        timeline: ["cpu0", "npu0"]
            .map(|device| Track { device: device.to_owned(), spans: (0..4 * n).map(span).collect() })
            .into(),
        layers: (0..n)
            .map(|i| LayerError { name: name(i), device: device(i), sqnr_db: i as f64, cosine: 1.0, max_abs: 0.1 })
            .collect(),
        npu: (0..n).map(|i| NpuLayer { layer: name(i), cycles: 1000 * i, utilization: 0.5 }).collect(),
        ..Page::default()
    }
}

/// The elements of a page in order, without script and style, checked to be balanced.
fn balanced(html: &str) -> usize {
    const VOID: [&str; 3] = ["meta", "input", "!doctype"];
    let without = |html: &str, name: &str| {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let (before, rest) = html.split_once(&open).expect(name);
        before.to_owned() + rest.split_once(&close).expect(name).1
    };
    let html = without(&without(html, "style"), "script");
    let mut open = Vec::new();
    let mut n = 0;
    for tag in html.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        n += 1;
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "in {tag}");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    n
}

#[test]
fn hostile_text_stays_text() {
    let html = render(&evil());
    assert!(!html.contains("<img") && !html.contains("alert(1)\""), "markup of the data got through");
    assert_eq!(html.matches("</script>").count(), 1);
    assert!(html.contains("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;&#39;"));
    balanced(&html);
}

#[test]
fn every_part_has_a_section_and_a_link() {
    let html = render(&evil());
    for part in PARTS {
        assert!(html.contains(&format!("<section id=\"{}\">", part.id)), "{}", part.id);
        assert!(html.contains(&format!("<a href=\"#{}\">", part.id)), "{}", part.id);
    }
}

#[test]
fn empty_parts_are_left_out() {
    let html = render(&Page { title: "nothing".to_owned(), ..Page::default() });
    assert!(!html.contains("<section") && !html.contains("<table"));
    balanced(&html);
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let html = render(&large(10));
    for word in ["http://", "https://", "src=", "url(", "@import", "fetch(", "<link"] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn three_hundred_nodes_are_less_than_a_megabyte() {
    let html = render(&large(300));
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    assert!(balanced(&html) > 300 * 20);
}

#[test]
fn the_same_data_gives_the_same_page() {
    assert_eq!(render(&large(30)), render(&large(30)));
}

#[test]
fn spans_that_overlap_lie_below_each_other() {
    let span = |start_ns, duration_ns| Span { name: "s".to_owned(), start_ns, duration_ns, kind: SpanKind::Compute };
    let track = Track { device: "cpu0".to_owned(), spans: vec![span(0, 50), span(10, 50), span(55, 45)] };
    let html = render(&Page { timeline: vec![track], ..Page::default() });
    let spans: Vec<&str> = html.split("<svg class=\"s\" ").skip(1).map(|s| s.split('>').next().unwrap()).collect();
    assert_eq!(
        spans,
        [
            "x=\"0%\" y=\"28\" width=\"50%\" height=\"20\"",
            "x=\"10%\" y=\"54\" width=\"50%\" height=\"20\"",
            "x=\"55%\" y=\"28\" width=\"45%\" height=\"20\"",
        ]
    );
}

#[test]
fn too_many_spans_are_cut_and_the_page_says_so() {
    let html = render(&large(900));
    assert!(html.contains("4800 shorter spans are not drawn"));
    assert_eq!(html.matches("<svg class=\"s\"").count(), 2400);
}

#[test]
fn a_quantization_shows_its_precisions_ranges_and_recipe() {
    let node = |node: &str, precision: &str, reason: &str| NodePrecision {
        node: node.to_owned(),
        op: "Conv".to_owned(),
        precision: precision.to_owned(),
        macs: 100,
        reason: reason.to_owned(),
    };
    let range =
        TensorRange { name: "x".to_owned(), dtype: "u8".to_owned(), lo: -1.0, hi: 4.0, ..TensorRange::default() };
    let html = render(&Page {
        precision: vec![node("c1", "u8", ""), node("c2", "float", "it raises the ratio")],
        ranges: vec![range],
        recipe: "Recipe(version: 1)".to_owned(),
        ..Page::default()
    });
    for part in ["id=\"precision\"", "id=\"ranges\"", "<pre", "it raises the ratio", "flex-grow:0.5000"] {
        assert!(html.contains(part), "{part}");
    }
    // The range spans from the middle minus half a root of a quarter to the right edge.
    assert!(html.contains("x=\"25%\" width=\"75%\""), "{html}");
}

#[test]
fn a_roofline_says_of_what_it_is_and_what_limits_each_layer() {
    let layer = |name: &str, bytes, busy, on_vector_unit| ChipLayer {
        name: name.to_owned(),
        macs: 400,
        bytes,
        on_vector_unit,
        busy,
        stalls: vec![("dma_in".to_owned(), 100 - busy)],
    };
    let page = Page {
        roofline: Some(Roof {
            chip: "chip x".to_owned(),
            macs_per_cycle: 256.0,
            vector_macs_per_cycle: 16.0,
            bytes_per_cycle: 16.0,
        }),
        // All lie left of the array's ridge. The first keeps the array busy without filling it.
        cycles: vec![layer("a", 400, 90, false), layer("m", 800, 40, false), layer("v", 400, 90, true)],
        ..Page::default()
    };
    let html = render(&page);
    assert!(html.contains("Of chip x. The ridge point of its array lies at 16.00 "), "{html}");
    assert!(html.contains("the memory limits 1, the array 1, the vector unit 1:"), "{html}");
    for (class, title) in [("d0", "a: 4"), ("d1", "m: 4"), ("d2", "v: 4")] {
        let dot = format!("<g class=\"{class}\"><title>{title}");
        assert!(html.contains(&dot), "{dot} is not in {html}");
    }
    assert_eq!(html.matches("class=\"mark\"").count(), 2, "a ridge per unit");
    let array_only = Page { cycles: page.cycles[..2].to_vec(), ..page };
    assert!(!render(&array_only).contains("vector unit limits"));
}
