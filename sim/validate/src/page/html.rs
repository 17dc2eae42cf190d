//! Writes HTML and SVG. Text that is not a constant of this crate can only enter escaped.
//!
//! Elements are opened and closed by one call, so that the result is balanced; names of elements and attributes are
//! constants, so that data cannot make markup.

use std::fmt::{Display, Write};

/// A document that grows at its end.
#[derive(Debug, Default)]
pub(super) struct Html(String);

/// Attributes of an element: constant names, any values.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

impl Html {
    /// The document.
    pub fn finish(self) -> String {
        self.0
    }

    /// Markup of this crate.
    pub fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Anything as text.
    pub fn text(&mut self, value: impl Display) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = write!(Escaped(&mut self.0), "{value}");
        self
    }

    /// An element with content.
    pub fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        content: impl FnOnce(&mut Self),
    ) -> &mut Self {
        self.open(name, attributes);
        self.raw(">");
        content(self);
        self.raw("</").raw(name).raw(">")
    }

    /// An element with text.
    pub fn leaf(&mut self, name: &'static str, attributes: Attributes<'_>, text: impl Display) -> &mut Self {
        self.element(name, attributes, |html| {
            html.text(text);
        })
    }

    /// An element of SVG without content.
    pub fn shape(&mut self, name: &'static str, attributes: Attributes<'_>) -> &mut Self {
        self.open(name, attributes);
        self.raw("/>")
    }

    fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.raw("<").raw(name);
        for (key, value) in attributes {
            self.raw(" ").raw(key).raw("=\"").text(value).raw("\"");
        }
    }
}

/// Escapes what is written through it, for text and for quoted attributes.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(c),
                // Control characters are not allowed in HTML; those of writing direction could disguise a name.
                c if c.is_control() || is_direction(c) => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

/// Characters that change the direction of what follows them.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut html = Html::default();
        html.leaf("b", &[("title", &"\"><script>'")], "<i>&\u{0}\u{202e}");
        let expected = "<b title=\"&quot;&gt;&lt;script&gt;&#39;\">&lt;i&gt;&amp;\u{fffd}\u{fffd}</b>";
        assert_eq!(html.finish(), expected);
    }

    #[test]
    fn elements_nest() {
        let mut html = Html::default();
        html.element("p", &[], |html| {
            html.text(1).shape("rect", &[("x", &2.5)]);
        });
        assert_eq!(html.finish(), "<p>1<rect x=\"2.5\"/></p>");
    }
}
