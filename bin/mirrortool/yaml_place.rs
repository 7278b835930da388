//! Where in a YAML text something stands: a mistake that is found once a file is read whole is told with the line and
//! column of the very word it is about.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// One step from the top of a document to a value in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The value of this key.
    Key(&'static str),
    /// The entry with this number of a list, from 0.
    Entry(usize),
}

/// The error with this message at the value that the steps lead to, or where they cannot be followed.
pub(crate) fn mistake_at(text: &str, steps: &[Step], message: String) -> anyhow::Error {
    let place = Place { steps, message: &message };
    match place.deserialize(serde_yaml::Deserializer::from_str(text)) {
        Err(error) => error.into(),
        Ok(()) => anyhow::Error::msg(message),
    }
}

/// Reads a document up to a value and fails there, so that the reader says where that was.
#[derive(Clone, Copy)]
struct Place<'a> {
    steps: &'a [Step],
    message: &'a str,
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Place<'_> {
    fn here<E: Error>(self) -> Result<(), E> {
        Err(E::custom(self.message))
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Some((Step::Entry(wanted), rest)) = self.steps.split_first() else { return self.here() };
        for _ in 0..*wanted {
            list.next_element::<IgnoredAny>()?;
        }
        list.next_element_seed(Place { steps: rest, ..self })?;
        self.here()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((Step::Key(wanted), rest)) = self.steps.split_first() else { return self.here() };
        while let Some(key) = map.next_key::<String>()? {
            if key == *wanted {
                return map.next_value_seed(Place { steps: rest, ..self });
            }
            map.next_value::<IgnoredAny>()?;
        }
        self.here()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.here()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.here()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.here()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.here()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.here()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.here()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_at_its_own_word() {
        let text = "jobs:\n- name: a\n  options: [-d, --fast]\n- options:\n    - -R\n    - --slow\n";
        for (steps, place) in [
            (vec![Step::Key("jobs"), Step::Entry(0), Step::Key("options"), Step::Entry(1)], "line 3 column 17"),
            (vec![Step::Key("jobs"), Step::Entry(1), Step::Key("options"), Step::Entry(1)], "line 6 column 7"),
            (vec![Step::Key("jobs"), Step::Entry(0), Step::Key("name")], "line 2 column 9"),
            (vec![Step::Key("jobs"), Step::Entry(1), Step::Key("name")], "line 4 column 3"),
        ] {
            let told = mistake_at(text, &steps, "no such option".to_owned()).to_string();
            assert!(told.starts_with("no such option") || told.contains(": no such option"), "{told}");
            assert!(told.ends_with(place), "{told} does not end with {place}");
        }
    }
}
