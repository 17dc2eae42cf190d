//! Attributes of a node: a sorted map with typed, error-reporting access.

use crate::{Error, Program, Result, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One attribute value.
#[derive(Debug, Clone, PartialEq)]
pub enum Attr {
    /// Integer.
    Int(i64),
    /// Float.
    Float(f32),
    /// Text.
    Str(String),
    /// Integers.
    Ints(Vec<i64>),
    /// Floats.
    Floats(Vec<f32>),
    /// Texts.
    Strs(Vec<String>),
    /// A constant tensor.
    Tensor(Tensor),
    /// The body of a loop or of a branch. It reads nothing from outside: what it needs are its inputs.
    Program(Arc<Program>),
}

impl Attr {
    /// The kind's name in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "string",
            Self::Ints(_) => "ints",
            Self::Floats(_) => "floats",
            Self::Strs(_) => "strings",
            Self::Tensor(_) => "tensor",
            Self::Program(_) => "program",
        }
    }
}

/// The attributes of one node, sorted by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attrs(pub BTreeMap<String, Attr>);

impl Attrs {
    /// The attribute, if it is set.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.get(name)
    }

    /// Sets an attribute, replacing an earlier value.
    pub fn set(&mut self, name: impl Into<String>, value: Attr) {
        self.0.insert(name.into(), value);
    }

    /// `self` with one attribute set.
    pub fn with(mut self, name: impl Into<String>, value: Attr) -> Self {
        self.set(name, value);
        self
    }

    /// An integer, if set; a wrong kind is an error.
    pub fn int_opt(&self, name: &str) -> Result<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Int(v)) => Ok(Some(*v)),
            Some(other) => Err(wrong_kind(name, other, "int")),
        }
    }

    /// An integer with a default.
    pub fn int(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int_opt(name)?.unwrap_or(default))
    }

    /// A float with a default.
    pub fn float(&self, name: &str, default: f32) -> Result<f32> {
        Ok(self.float_opt(name)?.unwrap_or(default))
    }

    /// A float, if set; a wrong kind is an error.
    pub fn float_opt(&self, name: &str) -> Result<Option<f32>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Float(v)) => Ok(Some(*v)),
            Some(other) => Err(wrong_kind(name, other, "float")),
        }
    }

    /// A string with a default.
    pub fn str<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str> {
        match self.get(name) {
            None => Ok(default),
            Some(Attr::Str(v)) => Ok(v),
            Some(other) => Err(wrong_kind(name, other, "string")),
        }
    }

    /// A list of integers, if set.
    pub fn ints_opt(&self, name: &str) -> Result<Option<&[i64]>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Ints(v)) => Ok(Some(v)),
            Some(other) => Err(wrong_kind(name, other, "ints")),
        }
    }

    /// A list of floats, if set.
    pub fn floats_opt(&self, name: &str) -> Result<Option<&[f32]>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Floats(v)) => Ok(Some(v)),
            Some(other) => Err(wrong_kind(name, other, "floats")),
        }
    }

    /// A list of strings, if set.
    pub fn strs_opt(&self, name: &str) -> Result<Option<&[String]>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Strs(v)) => Ok(Some(v)),
            Some(other) => Err(wrong_kind(name, other, "strings")),
        }
    }

    /// A program, which must be set.
    pub fn program(&self, name: &str) -> Result<&Program> {
        match self.get(name) {
            Some(Attr::Program(v)) => Ok(v),
            Some(other) => Err(wrong_kind(name, other, "program")),
            None => Err(Error::invalid(format!("attribute `{name}` is missing"))),
        }
    }

    /// A tensor, if set.
    pub fn tensor_opt(&self, name: &str) -> Result<Option<&Tensor>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attr::Tensor(v)) => Ok(Some(v)),
            Some(other) => Err(wrong_kind(name, other, "tensor")),
        }
    }
}

fn wrong_kind(name: &str, found: &Attr, expected: &str) -> Error {
    Error::invalid(format!("attribute `{name}` is of kind {}, expected {expected}", found.kind()))
}
