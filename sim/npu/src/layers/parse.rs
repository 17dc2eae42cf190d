//! Reads a list of layers: CSV with the columns `network, layer, kind, M, N, K, channels, count`, in any order.
//!
//! `network` may be absent (then it is empty), `channels` and `count` too (then they are 1). A column of another name is an
//! error, so that a misspelt one is not taken for an absent one. Cells may be quoted; a quoted cell does not span lines.

use super::LayersError;
use crate::analytic::{DIM_MAX, Gemm};

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
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().map(|(_, line)| cells(line)).unwrap_or_default();
    let columns = Columns::of(&header, file)?;
    let layers = lines.map(|(index, line)| columns.layer(&cells(line), index + 1)).collect::<Result<Vec<_>, _>>()?;
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
    fn of(header: &[String], file: &'a str) -> Result<Self, LayersError> {
        let error = |problem: String| LayersError::Header { file: file.to_owned(), problem };
        let mut place = [None; COLUMNS.len()];
        for (at, name) in header.iter().enumerate() {
            let Some(column) = COLUMNS.iter().position(|column| column == name) else {
                return Err(error(format!("there is no column `{name}`{}", nearest(name))));
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

    fn layer(&self, cells: &[String], line: usize) -> Result<Layer, LayersError> {
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

    fn text<'c>(&self, cells: &'c [String], column: usize) -> Option<&'c str> {
        self.place[column].and_then(|at| cells.get(at)).map(String::as_str)
    }

    fn kind(&self, cells: &[String], line: usize) -> Result<Kind, LayersError> {
        let text = self.text(cells, KIND).unwrap_or_default();
        Kind::named(text).ok_or_else(|| self.error(KIND, line, text, "conv, dw or gemm"))
    }

    /// A number of 1 to [`DIM_MAX`]; an absent column is 1.
    fn number(&self, cells: &[String], column: usize, line: usize) -> Result<u64, LayersError> {
        let Some(text) = self.text(cells, column) else { return Ok(1) };
        let number = text.parse().ok().filter(|number| (1..=DIM_MAX).contains(number));
        number.ok_or_else(|| self.error(column, line, text, &format!("a whole number of 1 to {DIM_MAX}")))
    }

    fn error(&self, column: usize, line: usize, found: &str, expected: &str) -> LayersError {
        LayersError::Cell {
            file: self.file.to_owned(),
            line,
            column: COLUMNS[column],
            found: found.to_owned(),
            expected: expected.to_owned(),
        }
    }
}

/// "; did you mean `x`?", where a column is near.
fn nearest(name: &str) -> String {
    let distances =
        COLUMNS.map(|column| (strsim::damerau_levenshtein(&name.to_lowercase(), &column.to_lowercase()), column));
    match distances.into_iter().min() {
        Some((distance, column)) if distance <= column.len() / 2 => format!("; did you mean `{column}`?"),
        _ => String::new(),
    }
}

/// The cells of a line, without blanks around them; `""` inside quotes is one quote.
fn cells(line: &str) -> Vec<String> {
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
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
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
}
