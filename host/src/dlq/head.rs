//! The few fields of a dead task that the index keeps, read from the front of its JSON.
//!
//! Invariant: reading stops at the last of them. They are written first, so a pass over the file
//! parses a fraction of it; the checksum vouches for the rest, which is read when it is asked for.
//!
//! Deliberately absent: what the fields mean.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};

/// The fields as they stand in the line.
pub(super) struct Head<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) task: Cow<'a, str>,
    pub(super) component: Cow<'a, str>,
    pub(super) verdict: Cow<'a, str>,
    pub(super) fingerprint: Cow<'a, str>,
    pub(super) dead_at: u64,
    pub(super) replays: u32,
}

impl<'a> Head<'a> {
    /// Reads the fields of the JSON object that `json` begins with; `None` when one is missing or
    /// of another type.
    pub(super) fn read(json: &'a [u8]) -> Option<Self> {
        let mut fields = Fields::default();
        let outcome = serde_json::Deserializer::from_slice(json).deserialize_map(&mut fields);
        // The visitor leaves by an error when it has everything, which skips the rest.
        if outcome.is_err() && !fields.is_complete() {
            return None;
        }
        Some(Self {
            id: fields.id?.0,
            task: fields.task?.0,
            component: fields.component?.0,
            verdict: fields.verdict?.0,
            fingerprint: fields.fingerprint?.0,
            dead_at: fields.dead_at?,
            replays: fields.replays?,
        })
    }
}

/// Text that is borrowed from the line unless it has escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Default)]
struct Fields<'a> {
    id: Option<Text<'a>>,
    task: Option<Text<'a>>,
    component: Option<Text<'a>>,
    verdict: Option<Text<'a>>,
    fingerprint: Option<Text<'a>>,
    dead_at: Option<u64>,
    replays: Option<u32>,
}

impl Fields<'_> {
    fn is_complete(&self) -> bool {
        let texts = [&self.id, &self.task, &self.component, &self.verdict, &self.fingerprint];
        self.replays.is_some() && self.dead_at.is_some() && texts.iter().all(|text| text.is_some())
    }
}

impl<'de> Visitor<'de> for &mut Fields<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a dead task")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        fn value<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: &mut A) -> Result<Option<T>, A::Error> {
            map.next_value().map(Some)
        }
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "id" => self.id = value(&mut map)?,
                "task" => self.task = value(&mut map)?,
                "component" => self.component = value(&mut map)?,
                "verdict" => self.verdict = value(&mut map)?,
                "fingerprint" => self.fingerprint = value(&mut map)?,
                "dead_at" => self.dead_at = value(&mut map)?,
                "replays" => self.replays = value(&mut map)?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
            if self.is_complete() {
                return Err(A::Error::custom("that is all"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str =
        r#""id":"i","task":"t\u0041","component":"c","verdict":"v","x":[{}],"fingerprint":"f","dead_at":7,"replays":2"#;

    #[test]
    fn the_fields_are_found_in_any_order_and_the_rest_is_not_looked_at() {
        for json in
            [format!("{{{FIELDS},\"payload\":\"…"), format!("{{{FIELDS}}}"), format!("{{\"payload\":[1],{FIELDS}}}")]
        {
            let head = Head::read(json.as_bytes()).unwrap();
            assert_eq!((&*head.id, &*head.task, head.dead_at, head.replays), ("i", "tA", 7, 2));
        }
    }

    #[test]
    fn a_missing_field_and_one_of_another_type_are_noticed() {
        for json in [
            format!("{{{}}}", FIELDS.replace("\"dead_at\":7,", "")),
            format!("{{{}}}", FIELDS.replace(":7", ":\"7\"")),
            format!("{{{}}}", FIELDS.replace("\"replays\":2", "\"replays\":-2")),
            "[]".to_owned(),
            String::new(),
        ] {
            assert!(Head::read(json.as_bytes()).is_none(), "{json}");
        }
    }
}
