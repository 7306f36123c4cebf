//! Which fields a type reads, found by deserializing it from a source that answers every question and writes it down.

use std::collections::BTreeMap;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};

/// Path and type of every field that `T` reads, under `root`.
pub(crate) fn of<T: DeserializeOwned>(root: &str) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    T::deserialize(Probe { path: root.to_owned(), seen: &mut seen })
        .expect("the source answers everything");
    seen
}

type Error = de::value::Error;

struct Probe<'a> {
    path: String,
    seen: &'a mut BTreeMap<String, String>,
}

impl Probe<'_> {
    fn note(&mut self, kind: &str) {
        self.seen.insert(self.path.clone(), kind.to_owned());
    }
}

macro_rules! scalar {
    ($($method:ident => $kind:literal, $visit:ident($($value:expr)?);)*) => {
        $(
            fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
                self.note($kind);
                visitor.$visit($($value)?)
            }
        )*
    };
}

impl<'de> de::Deserializer<'de> for Probe<'_> {
    type Error = Error;

    scalar! {
        deserialize_bool => "boolean", visit_bool(true);
        deserialize_i8 => "integer", visit_i8(1);
        deserialize_i16 => "integer", visit_i16(1);
        deserialize_i32 => "integer", visit_i32(1);
        deserialize_i64 => "integer", visit_i64(1);
        deserialize_u8 => "integer", visit_u8(1);
        deserialize_u16 => "integer", visit_u16(1);
        deserialize_u32 => "integer", visit_u32(1);
        deserialize_u64 => "integer", visit_u64(1);
        deserialize_f32 => "number", visit_f32(0.5);
        deserialize_f64 => "number", visit_f64(0.5);
        deserialize_char => "string", visit_char('a');
        deserialize_str => "string", visit_str("2026-01-01T00:00:00Z");
        deserialize_string => "string", visit_str("2026-01-01T00:00:00Z");
        deserialize_bytes => "string", visit_bytes(b"a");
        deserialize_byte_buf => "string", visit_bytes(b"a");
        deserialize_unit => "null", visit_unit();
        deserialize_identifier => "string", visit_str("a");
        deserialize_ignored_any => "any", visit_unit();
    }

    /// Asked by types that take several shapes: quantities, integers or strings, and free-form JSON.
    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let free_form = std::any::type_name::<V>().contains("serde_json");
        self.note(if free_form { "any" } else { "int-or-string" });
        visitor.visit_str("1")
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            "Quantity" => {
                self.note("int-or-string");
                visitor.visit_newtype_struct(StrDeserializer::<Error>::new("1"))
            }
            "RawExtension" => {
                self.note("any");
                visitor.visit_newtype_struct(serde::de::value::UnitDeserializer::<Error>::new())
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("array");
        visitor.visit_seq(Once { path: format!("{}[]", self.path), seen: self.seen, done: false })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("object");
        let path = format!("{}{{}}", self.path);
        visitor.visit_map(Fields {
            paths: vec![("key".to_owned(), path)],
            next: None,
            seen: self.seen,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("object");
        let paths = fields
            .iter()
            .rev()
            .map(|field| ((*field).to_owned(), format!("{}.{field}", self.path)))
            .collect();
        visitor.visit_map(Fields { paths, next: None, seen: self.seen })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("string");
        visitor.visit_enum(variants[0].into_deserializer())
    }
}

struct Once<'a> {
    path: String,
    seen: &'a mut BTreeMap<String, String>,
    done: bool,
}

impl<'de> de::SeqAccess<'de> for Once<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        seed.deserialize(Probe { path: self.path.clone(), seen: self.seen }).map(Some)
    }
}

struct Fields<'a> {
    paths: Vec<(String, String)>,
    next: Option<String>,
    seen: &'a mut BTreeMap<String, String>,
}

impl<'de> de::MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some((key, path)) = self.paths.pop() else { return Ok(None) };
        self.next = Some(path);
        seed.deserialize(StrDeserializer::<Error>::new(&key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let path = self.next.take().expect("a key comes first");
        seed.deserialize(Probe { path, seen: self.seen })
    }
}
