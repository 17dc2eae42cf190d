//! Text -> graph. Every error names its line, what was found and what was expected.

use super::HEADER;
use super::lex::{Token, lex};
use crate::{Activation, Graph, Phase, State, to_program};
use ottava_hal::{
    Attr, DataType, Dim, Error, Layout, Node, Program, QuantParams, RequantMode, Result, Scheme, Shape, Tensor,
    TensorType, ValueId,
};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Parses the text form. The graph is not verified; [`crate::verify`] does that.
pub fn parse(text: &str) -> Result<Graph> {
    let mut lines = text.lines().enumerate().map(|(i, l)| (i + 1, l)).filter(|(_, l)| !l.trim().is_empty());
    if lines.next().map(|(_, l)| l.trim()) != Some(HEADER) {
        return Err(Error::invalid(format!("line 1: expected `{HEADER}`")));
    }
    let mut graph = Graph::default();
    let mut names = BTreeMap::new();
    for (line, text) in lines {
        let tokens = lex(text, line)?;
        Parser { tokens: &tokens, at: 0, line, names: &mut names, graph: &mut graph }.statement()?;
    }
    Ok(graph)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    line: usize,
    names: &'a mut BTreeMap<String, ValueId>,
    graph: &'a mut Graph,
}

impl Parser<'_> {
    fn statement(&mut self) -> Result<()> {
        match self.tokens.first() {
            Some(Token::Word(w)) if w == "graph" => self.header(),
            Some(Token::Word(w)) if w == "opset" => self.opset(),
            Some(Token::Word(w)) if w == "input" => self.input(),
            Some(Token::Word(w)) if w == "const" => self.constant(),
            Some(Token::Word(w)) if w == "output" => self.output(),
            Some(Token::Word(w)) if w == "state" => self.state(),
            _ => self.node(),
        }?;
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail("the end of the line"),
        }
    }

    fn header(&mut self) -> Result<()> {
        self.at = 1;
        self.graph.name = self.name()?;
        self.graph.phase = self.parsed::<Phase>()?;
        Ok(())
    }

    fn opset(&mut self) -> Result<()> {
        self.at = 1;
        let domain = self.name()?;
        let version = self.parsed()?;
        self.graph.opsets.insert(domain, version);
        Ok(())
    }

    fn input(&mut self) -> Result<()> {
        self.at = 1;
        let id = self.definition()?;
        self.graph.inputs.push(id);
        Ok(())
    }

    fn constant(&mut self) -> Result<()> {
        self.at = 1;
        let id = self.definition()?;
        self.expect("=")?;
        let data = self.data(&self.graph.ty(id).clone())?;
        self.graph.values[id.0].constant = Some(data);
        Ok(())
    }

    fn output(&mut self) -> Result<()> {
        self.at = 1;
        let id = self.reference()?;
        self.graph.outputs.push(id);
        Ok(())
    }

    /// `state NAME I O = DATA`: places among the inputs and outputs, which stand above.
    fn state(&mut self) -> Result<()> {
        self.at = 1;
        let (name, input, output) = (self.name()?, self.parsed::<usize>()?, self.parsed::<usize>()?);
        let Some(id) = self.graph.inputs.get(input).copied().filter(|_| output < self.graph.outputs.len()) else {
            return self.fail("places of an input and an output above");
        };
        self.expect("=")?;
        let initial = self.data(&self.graph.ty(id).clone())?;
        self.graph.states.push(State { name, input, output, initial });
        Ok(())
    }

    fn node(&mut self) -> Result<()> {
        let mut outputs = vec![self.definition()?];
        while self.accept(",") {
            outputs.push(self.definition()?);
        }
        self.expect("=")?;
        let name = self.name()?;
        let (domain, op, version) = self.operator()?;
        let mut node = Node::new(name, op, version);
        node.domain = domain;
        node.outputs = outputs;
        node.inputs = self.list("(", ")", Self::optional_reference)?;
        if self.accept("{") {
            self.at -= 1;
            for (key, value) in self.list("{", "}", Self::attribute)? {
                node.attrs.set(key, value);
            }
        }
        self.suffixes(&mut node)?;
        self.graph.nodes.push(node);
        Ok(())
    }

    /// `Op.13` or `domain::Op.13`; a quoted name is followed by a version word that begins with a dot.
    fn operator(&mut self) -> Result<(String, String, u32)> {
        let first = self.next_name("an operator")?;
        let (domain, last) = match self.accept("::") {
            true => (first.0, self.next_name("an operator")?),
            false => (String::new(), first),
        };
        let (op, version) = match last {
            (op, true) => (op, self.word()?.trim_start_matches('.').to_string()),
            (text, false) => match text.rsplit_once('.') {
                Some((op, version)) => (op.to_string(), version.to_string()),
                None => return self.fail("an operator with its version, such as `Conv.22`"),
            },
        };
        let version = version.parse().or_else(|_| self.fail("a version number"))?;
        Ok((domain, op, version))
    }

    fn suffixes(&mut self, node: &mut Node) -> Result<()> {
        while let Some(Token::Word(word)) = self.peek().cloned() {
            self.at += 1;
            match word.as_str() {
                "requant" => node.requant = Some(self.requant()?),
                "zp_before_round" => node.fused.zp_before_round = true,
                "residual" => node.fused.residual = true,
                "relu" => node.fused.act = Some(Activation::Relu),
                "clip" => {
                    let (lo, hi) = self.pair()?;
                    node.fused.act = Some(Activation::Clip { lo, hi });
                }
                "clamp" => node.fused.clamp = Some(self.pair()?),
                _ => {
                    self.at -= 1;
                    return self.fail("requant, zp_before_round, residual, relu, clip or clamp");
                }
            }
        }
        Ok(())
    }

    fn requant(&mut self) -> Result<RequantMode> {
        let word = self.word()?;
        let unknown = || Error::invalid(format!("line {}: unknown requantization mode `{word}`", self.line));
        RequantMode::from_name(&word).ok_or_else(unknown)
    }

    fn pair<T: FromStr>(&mut self) -> Result<(T, T)> {
        self.expect("(")?;
        let lo = self.parsed()?;
        self.expect(",")?;
        let hi = self.parsed()?;
        self.expect(")")?;
        Ok((lo, hi))
    }

    fn definition(&mut self) -> Result<ValueId> {
        self.expect("%")?;
        let name = self.name()?;
        self.expect(":")?;
        let ty = self.tensor_type()?;
        if self.names.contains_key(&name) {
            return Err(Error::invalid(format!("line {}: value `{name}` is defined twice", self.line)));
        }
        let id = self.graph.add_value(name.clone(), ty);
        self.names.insert(name, id);
        Ok(id)
    }

    fn reference(&mut self) -> Result<ValueId> {
        self.expect("%")?;
        let name = self.name()?;
        let unknown = || Error::invalid(format!("line {}: no value `{name}` is defined above", self.line));
        self.names.get(&name).copied().ok_or_else(unknown)
    }

    fn optional_reference(&mut self) -> Result<Option<ValueId>> {
        if matches!(self.peek(), Some(Token::Word(w)) if w == "_") {
            self.at += 1;
            return Ok(None);
        }
        self.reference().map(Some)
    }

    fn tensor_type(&mut self) -> Result<TensorType> {
        let dtype = self.parsed::<DataType>()?;
        let dims = self.list("[", "]", Self::dim)?;
        let mut ty = TensorType::new(dtype, Shape(dims));
        if self.accept_word("nhwc") {
            ty.layout = Layout::Nhwc;
        }
        match self.quant()? {
            Some(q) => Ok(ty.quantized(q)),
            None => Ok(ty),
        }
    }

    fn dim(&mut self) -> Result<Dim> {
        let (text, quoted) = self.next_name("a dimension")?;
        match text.parse() {
            Ok(n) if !quoted => Ok(Dim::Known(n)),
            _ => Ok(Dim::Sym(text.into())),
        }
    }

    fn quant(&mut self) -> Result<Option<QuantParams>> {
        if self.accept_word("per_tensor") {
            let (scale, zero_point) = {
                self.expect("(")?;
                let scale = self.parsed()?;
                self.expect(",")?;
                (scale, self.parsed()?)
            };
            self.expect(")")?;
            return Ok(Some(QuantParams::per_tensor(scale, zero_point)));
        }
        let blocked = self.accept_word("blocked");
        if !blocked && !self.accept_word("per_axis") {
            return Ok(None);
        }
        self.expect("(")?;
        let axis = self.parsed()?;
        self.expect(",")?;
        let scheme = if blocked {
            let block = self.parsed()?;
            self.expect(",")?;
            Scheme::Blocked { axis, block }
        } else {
            Scheme::PerAxis { axis }
        };
        let scales = self.list("[", "]", Self::parsed)?;
        self.expect(",")?;
        let zero_points = self.list("[", "]", Self::parsed)?;
        self.expect(")")?;
        Ok(Some(QuantParams { scheme, scales, zero_points }))
    }

    fn attribute(&mut self) -> Result<(String, Attr)> {
        let name = self.name()?;
        self.expect("=")?;
        let value = match self.peek().cloned() {
            Some(Token::Quoted(text)) => {
                self.at += 1;
                Attr::Str(text)
            }
            _ if self.accept_word("ints") => Attr::Ints(self.list("[", "]", Self::parsed)?),
            _ if self.accept_word("floats") => Attr::Floats(self.list("[", "]", Self::parsed)?),
            _ if self.accept_word("strings") => Attr::Strs(self.list("[", "]", Self::name)?),
            _ if self.accept_word("program") => Attr::Program(self.program()?.into()),
            _ if self.accept_word("tensor") => {
                let ty = self.tensor_type()?;
                self.expect("=")?;
                Attr::Tensor(self.data(&ty)?)
            }
            Some(Token::Word(w)) => {
                self.at += 1;
                match (w.parse::<i64>(), w.parse::<f32>()) {
                    (Ok(v), _) => Attr::Int(v),
                    (_, Ok(v)) => Attr::Float(v),
                    _ => return self.fail("an attribute value"),
                }
            }
            _ => return self.fail("an attribute value"),
        };
        Ok((name, value))
    }

    /// A body as its own text. Quotes inside quotes double with each level, which bounds the depth.
    fn program(&mut self) -> Result<Program> {
        match self.peek().cloned() {
            Some(Token::Quoted(text)) => {
                self.at += 1;
                let body = parse(&text).map_err(|e| Error::invalid(format!("line {}: body: {e}", self.line)))?;
                Ok(to_program(&body))
            }
            _ => self.fail("the quoted text of a graph"),
        }
    }

    fn data(&mut self, ty: &TensorType) -> Result<Tensor> {
        let shape = ty
            .shape
            .known()
            .ok_or_else(|| Error::invalid(format!("line {}: constant data of symbolic shape", self.line)))?;
        let tensor = if self.accept_word("hex") {
            Tensor::from_bytes(ty.dtype, &shape, &self.hex()?)
        } else if ty.dtype.is_float() {
            let numbers: Vec<f32> = self.list("[", "]", Self::parsed)?;
            sized(&shape, numbers.len()).and_then(|()| Tensor::from_f32s(ty.dtype, &shape, &numbers))
        } else {
            let numbers: Vec<i64> = self.list("[", "]", Self::parsed)?;
            sized(&shape, numbers.len()).and_then(|()| Tensor::from_ints(ty.dtype, &shape, &numbers))
        };
        tensor.map_err(|e| Error::invalid(format!("line {}: {e}", self.line)))
    }

    fn hex(&mut self) -> Result<Vec<u8>> {
        let text = self.name()?;
        let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
        let pair = |p: &[u8]| match p {
            [a, b] => digit(*a).zip(digit(*b)).map(|(a, b)| a << 4 | b),
            _ => None,
        };
        let bad = || Error::invalid(format!("line {}: hex data must be pairs of hexadecimal digits", self.line));
        text.as_bytes().chunks(2).map(pair).collect::<Option<Vec<u8>>>().ok_or_else(bad)
    }

    fn list<T>(&mut self, open: &'static str, close: &'static str, item: fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.accept(close) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn accept(&mut self, mark: &str) -> bool {
        let hit = matches!(self.peek(), Some(Token::Mark(m)) if *m == mark);
        self.at += usize::from(hit);
        hit
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let hit = matches!(self.peek(), Some(Token::Word(w)) if w == word);
        self.at += usize::from(hit);
        hit
    }

    fn expect(&mut self, mark: &str) -> Result<()> {
        if self.accept(mark) { Ok(()) } else { self.fail(&format!("`{mark}`")) }
    }

    /// A word or quoted string, and whether it was quoted.
    fn next_name(&mut self, expected: &str) -> Result<(String, bool)> {
        let found = match self.peek() {
            Some(Token::Word(w)) => (w.clone(), false),
            Some(Token::Quoted(q)) => (q.clone(), true),
            _ => return self.fail(expected),
        };
        self.at += 1;
        Ok(found)
    }

    fn name(&mut self) -> Result<String> {
        self.next_name("a name").map(|(text, _)| text)
    }

    fn word(&mut self) -> Result<String> {
        match self.next_name("a word")? {
            (text, false) => Ok(text),
            _ => self.fail("a word without quotes"),
        }
    }

    fn parsed<T: FromStr>(&mut self) -> Result<T> {
        let word = self.word()?;
        word.parse()
            .map_err(|_| Error::invalid(format!("line {}: `{word}` is no {}", self.line, std::any::type_name::<T>())))
    }

    fn fail<T>(&self, expected: &str) -> Result<T> {
        let found = match self.peek() {
            Some(Token::Word(t) | Token::Quoted(t)) => format!("`{t}`"),
            Some(Token::Mark(m)) => format!("`{m}`"),
            None => "the end of the line".into(),
        };
        Err(Error::invalid(format!("line {}: expected {expected}, found {found}", self.line)))
    }
}

fn sized(shape: &[usize], n: usize) -> Result<()> {
    let expected = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    if expected == Some(n) { Ok(()) } else { Err(Error::invalid(format!("{n} elements for shape {shape:?}"))) }
}
