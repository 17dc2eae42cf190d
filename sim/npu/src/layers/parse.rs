//! Reads a list of layers: CSV with the columns `network, layer, kind, M, N, K, channels, count`, in any order.
//!
//! `network` may be absent (then it is empty), `channels` and `count` too (then they are 1). A column of another name is an
//! error, so that a misspelt one is not taken for an absent one. Cells may be quoted; a quoted cell that spans lines is an
//! error. Errors quote at most an excerpt of the text, so that they stay readable whatever the file holds.

use super::LayersError;
use crate::analytic::{DIM_MAX, Gemm};
use crate::suggest::{excerpt, is_long};
use std::borrow::Cow;

/// Bytes of a list that a reader should take at most: room for about a million layers.
pub const MAX_BYTES: u64 = 64 << 20;
/// Bytes of the longest line.
const MAX_LINE: usize = 64 << 10;
/// The columns, in the order of [`COUNT`] and its siblings.
const COLUMNS: [&str; 8] = ["network", "layer", "kind", "M", "N", "K", "channels", "count"];
const NETWORK: usize = 0;
const LAYER: usize = 1;
const KIND: usize = 2;
const SIZES: [usize; 3] = [3, 4, 5];
const CHANNELS: usize = 6;
const COUNT: usize = 7;
const REQUIRED: [usize; 5] = [LAYER, KIND, SIZES[0], SIZES[1], SIZES[2]];

/// What a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A convolution, as the product of each group.
    Conv,
    /// A depthwise convolution, as the product of one channel.
    Depthwise,
    /// A product of matrices.
    Gemm,
}

impl Kind {
    /// The name in lists and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conv => "conv",
            Self::Depthwise => "dw",
            Self::Gemm => "gemm",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Conv, Self::Depthwise, Self::Gemm].into_iter().find(|kind| kind.name() == name)
    }
}

/// One layer of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The network that it belongs to.
    pub network: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The product of one channel or group.
    pub gemm: Gemm,
    /// Channels of a depthwise convolution, groups of another one.
    pub channels: u64,
    /// How often the network has this layer.
    pub count: u64,
    /// Line in the list, from 1; 0 for a layer that was not read.
    pub line: usize,
}

/// Reads a list. `file` is its name in errors.
pub fn parse(text: &str, file: &str) -> Result<Vec<Layer>, LayersError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().enumerate().filter(|(_, line)| line.len() > MAX_LINE || !line.trim().is_empty());
    let header = match lines.next() {
        Some((index, line)) => cells(line, file, index + 1)?,
        None => Vec::new(),
    };
    let columns = Columns::of(&header, file)?;
    let layer = |(index, line)| columns.layer(&cells(line, file, index + 1)?, index + 1);
    let layers = lines.map(layer).collect::<Result<Vec<_>, _>>()?;
    if layers.is_empty() {
        return Err(LayersError::Empty { file: file.to_owned() });
    }
    Ok(layers)
}

/// Where the columns stand.
struct Columns<'a> {
    file: &'a str,
    width: usize,
    place: [Option<usize>; COLUMNS.len()],
}

impl<'a> Columns<'a> {
    fn of(header: &[Cow<'_, str>], file: &'a str) -> Result<Self, LayersError> {
        let error = |problem: String| LayersError::Header { file: file.to_owned(), problem };
        let mut place = [None; COLUMNS.len()];
        for (at, name) in header.iter().enumerate() {
            let Some(column) = COLUMNS.iter().position(|column| *column == &**name) else {
                return Err(error(format!("there is no column `{}`{}", excerpt(name), nearest(name))));
            };
            if place[column].replace(at).is_some() {
                return Err(error(format!("the column `{name}` stands twice")));
            }
        }
        match REQUIRED.iter().find(|&&column| place[column].is_none()) {
            Some(&column) => Err(error(format!("the column `{}` is missing", COLUMNS[column]))),
            None => Ok(Self { file, width: header.len(), place }),
        }
    }

    fn layer(&self, cells: &[Cow<'_, str>], line: usize) -> Result<Layer, LayersError> {
        if cells.len() != self.width {
            let (found, expected) = (cells.len(), self.width);
            return Err(LayersError::Width { file: self.file.to_owned(), line, found, expected });
        }
        let [m, n, k] = SIZES;
        Ok(Layer {
            network: self.text(cells, NETWORK).unwrap_or_default().to_owned(),
            name: self.text(cells, LAYER).unwrap_or_default().to_owned(),
            kind: self.kind(cells, line)?,
            gemm: Gemm::new(self.number(cells, m, line)?, self.number(cells, n, line)?, self.number(cells, k, line)?),
            channels: self.number(cells, CHANNELS, line)?,
            count: self.number(cells, COUNT, line)?,
            line,
        })
    }

    fn text<'c>(&self, cells: &'c [Cow<'_, str>], column: usize) -> Option<&'c str> {
        self.place[column].and_then(|at| cells.get(at)).map(|cell| &**cell)
    }

    fn kind(&self, cells: &[Cow<'_, str>], line: usize) -> Result<Kind, LayersError> {
        let text = self.text(cells, KIND).unwrap_or_default();
        Kind::named(text).ok_or_else(|| self.error(KIND, line, text, "conv, dw or gemm"))
    }

    /// A number of 1 to [`DIM_MAX`]; an absent column is 1.
    fn number(&self, cells: &[Cow<'_, str>], column: usize, line: usize) -> Result<u64, LayersError> {
        let Some(text) = self.text(cells, column) else { return Ok(1) };
        let number = text.parse().ok().filter(|number| (1..=DIM_MAX).contains(number));
        number.ok_or_else(|| self.error(column, line, text, &format!("a whole number of 1 to {DIM_MAX}")))
    }

    fn error(&self, column: usize, line: usize, found: &str, expected: &str) -> LayersError {
        LayersError::Cell {
            file: self.file.to_owned(),
            line,
            column: COLUMNS[column],
            found: excerpt(found),
            expected: expected.to_owned(),
        }
    }
}

/// "; did you mean `x`?", where a column is near.
fn nearest(name: &str) -> String {
    if is_long(name) {
        return String::new();
    }
    let distances =
        COLUMNS.map(|column| (strsim::damerau_levenshtein(&name.to_lowercase(), &column.to_lowercase()), column));
    match distances.into_iter().min() {
        Some((distance, column)) if distance <= column.len() / 2 => format!("; did you mean `{column}`?"),
        _ => String::new(),
    }
}

/// The cells of a line, without blanks around them; `""` inside quotes is one quote.
fn cells<'l>(line: &'l str, file: &str, number: usize) -> Result<Vec<Cow<'l, str>>, LayersError> {
    if line.len() > MAX_LINE {
        let (bytes, limit) = (line.len(), MAX_LINE);
        return Err(LayersError::LongLine { file: file.to_owned(), line: number, bytes, limit });
    }
    if !line.contains('"') {
        return Ok(line.split(',').map(|cell| Cow::Borrowed(cell.trim())).collect());
    }
    let cells = quoted_cells(line).ok_or_else(|| LayersError::Quote { file: file.to_owned(), line: number })?;
    Ok(cells.iter().map(|cell| Cow::Owned(cell.trim().to_owned())).collect())
}

/// The cells of a line with quotes; `None` if the last quote is not closed.
pub(crate) fn quoted_cells(line: &str) -> Option<Vec<String>> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                push(&mut cells, '"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => push(&mut cells, c),
        }
    }
    (!quoted).then_some(cells)
}

fn push(cells: &mut [String], c: char) {
    if let Some(cell) = cells.last_mut() {
        cell.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(text, "l.csv").unwrap_err().to_string()
    }

    #[test]
    fn columns_stand_in_any_order_and_some_may_be_absent() {
        let text = "\u{feff}kind,layer,K,M,N\r\nconv,\"stem, \"\"a\"\"\",27, 100 ,8\r\n\r\ngemm,fc,1,2,3\r\n";
        let layers = parse(text, "l.csv").unwrap();
        assert_eq!(layers.len(), 2);
        assert_eq!(
            (layers[0].name.as_str(), layers[0].gemm, layers[0].line),
            ("stem, \"a\"", Gemm::new(100, 8, 27), 2)
        );
        assert_eq!((layers[1].kind, layers[1].channels, layers[1].count, layers[1].line), (Kind::Gemm, 1, 1, 4));
    }

    #[test]
    fn errors_name_line_and_column() {
        let header = "network,layer,kind,M,N,K,channels,count\n";
        let row = |cells: &str| message(&format!("{header}net,a,conv,1,1,1,1,1\n{cells}\n"));
        assert_eq!(
            row("net,b,conv,x,1,1,1,1"),
            "l.csv:3: column `M`: found `x`; expected a whole number of 1 to 4294967295"
        );
        assert_eq!(row("net,b,fc,1,1,1,1,1"), "l.csv:3: column `kind`: found `fc`; expected conv, dw or gemm");
        assert!(row("net,b,dw,1,1,1,0,1").starts_with("l.csv:3: column `channels`: found `0`"));
        assert!(row("net,b,dw,1,1,4294967296,1,1").contains("column `K`"));
        assert!(row("net,b,dw,1,1").starts_with("l.csv:3: 5 cells; expected 8"));
    }

    #[test]
    fn headers_are_checked() {
        assert!(message("layer,kind,M,N,K,chanels\na,gemm,1,1,1,1").contains("did you mean `channels`?"));
        assert!(message("layer,kind,M,N\n").contains("the column `K` is missing"));
        assert!(message("layer,kind,M,N,K,M\n").contains("`M` stands twice"));
        assert!(message("").contains("`layer` is missing"));
        assert!(message("layer,kind,M,N,K\n").contains("has no layers"));
    }

    #[test]
    fn errors_quote_excerpts_and_long_lines_are_refused() {
        let x = "x".repeat(1000);
        let row = message(&format!("layer,kind,M,N,K\na,{x},1,1,1\n"));
        assert_eq!(row, format!("l.csv:2: column `kind`: found `{}…`; expected conv, dw or gemm", &x[..60]));
        assert!(message(&x).contains(&format!("no column `{}…`;", &x[..60])));
        let long = "x".repeat(MAX_LINE + 1);
        for text in [long.clone(), format!("layer,kind,M,N,K\n{long}\n"), " ".repeat(MAX_LINE + 1)] {
            let error = message(&text);
            assert!(error.contains("65537 bytes; expected at most 65536") && error.len() < 200, "{error}");
        }
    }

    #[test]
    fn a_cell_does_not_span_lines() {
        let error = message("layer,kind,M,N,K\n\"a\nb\",gemm,1,1,1\n");
        assert!(error.starts_with("l.csv:2: a quoted cell does not end on its line"), "{error}");
        assert!(message("layer,\"kind").starts_with("l.csv:1: a quoted cell"));
    }
}
