//! LVM's text: sections, numbers, strings, lists.

/// Sections within one another.
const MAX_DEPTH: u32 = 16;
/// Entries of one text.
const MAX_ENTRIES: usize = 1 << 20;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    Text(String),
    List(Vec<Value>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Value(Value),
    Section(Section),
}

/// Names and what they stand for, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section(Vec<(String, Entry)>);

impl Section {
    fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find_map(|(other, entry)| match entry {
            Entry::Value(value) if other == name => Some(value),
            _ => None,
        })
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        if let Some(Value::Number(number)) = self.value(name) { Some(*number) } else { None }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        if let Some(Value::Text(text)) = self.value(name) { Some(text) } else { None }
    }

    pub(super) fn list(&self, name: &str) -> Option<&[Value]> {
        if let Some(Value::List(list)) = self.value(name) { Some(list) } else { None }
    }

    pub(super) fn has_flag(&self, name: &str, flag: &str) -> bool {
        self.list(name).is_some_and(|list| list.iter().any(|value| matches!(value, Value::Text(text) if text == flag)))
    }

    pub(super) fn section(&self, name: &str) -> Option<&Self> {
        self.sections().find(|(other, _)| *other == name).map(|(_, section)| section)
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.0.iter().filter_map(|(name, entry)| match entry {
            Entry::Section(section) => Some((&name[..], section)),
            Entry::Value(_) => None,
        })
    }

    pub(super) fn into_sections(self) -> impl Iterator<Item = (String, Self)> {
        self.0.into_iter().filter_map(|(name, entry)| match entry {
            Entry::Section(section) => Some((name, section)),
            Entry::Value(_) => None,
        })
    }
}

/// The sections and values of a text; `None` where it cannot be read to its end.
pub(super) fn parse(text: &[u8]) -> Option<Section> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    let mut parser = Parser { rest: text, entries: 0 };
    let section = parser.section(0)?;
    parser.skip();
    parser.rest.is_empty().then_some(section)
}

struct Parser<'a> {
    rest: &'a [u8],
    entries: usize,
}

impl Parser<'_> {
    /// Passes over spaces and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_ascii_start();
            if !self.rest.starts_with(b"#") {
                return;
            }
            let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
            self.rest = self.rest.get(end..).unwrap_or_default();
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.rest.first().copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.rest = self.rest.get(1..).unwrap_or_default())
    }

    /// Entries until the end or a closing brace.
    fn section(&mut self, depth: u32) -> Option<Section> {
        let mut section = Section::default();
        while self.peek().is_some_and(|byte| byte != b'}') {
            self.entries += 1;
            if depth > MAX_DEPTH || self.entries > MAX_ENTRIES {
                return None;
            }
            let name = self.word()?;
            let entry = if self.peek()? == b'{' {
                self.take(b'{')?;
                let inner = self.section(depth + 1)?;
                self.take(b'}')?;
                Entry::Section(inner)
            } else {
                self.take(b'=')?;
                Entry::Value(self.any_value(depth)?)
            };
            section.0.push((name, entry));
        }
        Some(section)
    }

    fn word(&mut self) -> Option<String> {
        self.skip();
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.+/".contains(byte);
        let len = self.rest.iter().take_while(|byte| is_part(byte)).count();
        let (word, rest) = self.rest.split_at_checked(len).filter(|(word, _)| !word.is_empty())?;
        self.rest = rest;
        String::from_utf8(word.to_vec()).ok()
    }

    fn any_value(&mut self, depth: u32) -> Option<Value> {
        self.entries += 1;
        if depth > MAX_DEPTH || self.entries > MAX_ENTRIES {
            return None;
        }
        match self.peek()? {
            b'"' => self.string().map(Value::Text),
            b'[' => {
                self.take(b'[')?;
                let mut list = Vec::new();
                while self.peek()? != b']' {
                    list.push(self.any_value(depth + 1)?);
                    if self.peek()? == b',' {
                        self.take(b',')?;
                    }
                }
                self.take(b']')?;
                Some(Value::List(list))
            }
            // A fraction or a negative number is nothing that is needed here; it must only not end the reading.
            _ => {
                let word = self.word()?;
                Some(word.parse().map_or(Value::Text(word), Value::Number))
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.take(b'"')?;
        let mut bytes = Vec::new();
        loop {
            let (first, rest) = self.rest.split_first()?;
            self.rest = rest;
            match first {
                b'"' => return String::from_utf8(bytes).ok(),
                b'\\' => {
                    let (escaped, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    bytes.push(*escaped);
                }
                byte => bytes.push(*byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_values_lists_and_comments_are_read() {
        let text = b"# made by hand\nvg1 {\n id = \"a-b\" # id\n seqno=7\n status = [\"RESIZEABLE\", \"READ\"]\n\
            pv { pv0 { pe_start = 2048 } }\n stripes = [ \"pv0\", 12 ]\n empty = []\n quoted = \"a \\\" b\"\n}\nversion = 1\n\0";
        let top = parse(text).unwrap();
        assert_eq!(top.number("version"), Some(1));
        let vg = top.section("vg1").unwrap();
        assert_eq!((vg.text("id"), vg.number("seqno")), (Some("a-b"), Some(7)));
        assert!(vg.has_flag("status", "READ") && !vg.has_flag("status", "VISIBLE"));
        assert_eq!(vg.section("pv").unwrap().section("pv0").unwrap().number("pe_start"), Some(2048));
        assert_eq!(vg.list("stripes").unwrap(), [Value::Text("pv0".into()), Value::Number(12)]);
        assert_eq!(vg.text("quoted"), Some("a \" b"));
    }

    #[test]
    fn what_is_cut_off_or_too_deep_is_nothing() {
        for text in ["a {", "a = ", "a = \"b", "a = [1, ", "a }", "= 1", "a"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse("a{".repeat(100_000).as_bytes()), None);
        assert_eq!(parse(format!("a={}", "[".repeat(100_000)).as_bytes()), None);
    }
}
