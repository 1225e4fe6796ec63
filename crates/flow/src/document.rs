//! The flow document: the one JSON form that Python, Rust, the command line and the studio read and
//! write (River, 2.3.3: place, attach, go).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::depth::check_json;
use crate::error::secrets::{refuse_keys, refuse_keys_of};
use crate::error::{Error, Result, unknown};

/// The version this code writes. Older documents are read; newer ones are refused.
pub const DOCUMENT_VERSION: u32 = 1;

/// Modules that older documents call by another name.
const RENAMED_MODULES: [(&str, &str); 1] = [("sql", "external_sql")];

/// A flow: modules, the queues between them, and variables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Version of the format.
    pub euphrates: u32,
    /// What the flow is called.
    pub name: String,
    /// Values that are given when the flow is run. In a configuration, `{"$var": "name"}` stands
    /// for the value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Variable>,
    /// The modules, in the order they were placed.
    pub modules: Vec<Node>,
    /// The queues, in the order they were attached.
    #[serde(default)]
    pub queues: Vec<Edge>,
    /// Positions of the modules in the studio. They do not affect the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Value>,
}

/// A variable of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// The default value. A variable without a default must be given a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
}

/// A module placed in a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name in this flow.
    pub id: String,
    /// The name of its spec.
    pub module: String,
    /// Its configuration; see the module's schema.
    #[serde(default)]
    pub config: Map<String, Value>,
    /// The number of instances; without it, the engine chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// The number of instances at each worker; instead of `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_worker: Option<usize>,
    /// The workers it may be at, by name or by label (`gpu`, `zone=a`); any, if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<String>,
}

/// A queue between two modules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The id of the module that puts records in.
    pub from: String,
    /// Which of its outputs, by name or position. By default the first; if it has one for each
    /// queue, the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Port>,
    /// The id of the module that takes records out.
    pub to: String,
    /// Which of its inputs, by name or position. By default the first; if it has one for each
    /// queue, the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Port>,
    /// How batches are assigned to consumers; if absent, `keyed` if the producer's output is keyed,
    /// else `distributed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueKind>,
    /// The most bytes that wait in the queue (a single batch may exceed it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<usize>,
}

/// A port by name or position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Port {
    /// By position, from 0.
    Position(usize),
    /// By the name in the spec.
    Name(String),
}

/// How a queue assigns batches to consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// Any consumer that has time.
    Distributed,
    /// Instance *i* of the producer feeds instance *i* of the consumer.
    Pairwise,
    /// Every consumer gets every batch.
    Broadcast,
    /// Any consumer that has time gets a whole partition.
    Keyed,
}

impl QueueKind {
    /// The name used in documents and in user interfaces.
    ///
    /// ```
    /// use euphrates_flow::QueueKind;
    ///
    /// let word = serde_json::to_value(QueueKind::Pairwise)?;
    /// assert_eq!(word, QueueKind::Pairwise.word(), "as in a document");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn word(self) -> &'static str {
        match self {
            QueueKind::Distributed => "distributed",
            QueueKind::Pairwise => "pairwise",
            QueueKind::Broadcast => "broadcast",
            QueueKind::Keyed => "keyed",
        }
    }
}

impl Document {
    /// A flow without modules.
    pub fn new(name: impl Into<String>) -> Document {
        Document {
            euphrates: DOCUMENT_VERSION,
            name: name.into(),
            variables: BTreeMap::new(),
            modules: vec![],
            queues: vec![],
            layout: None,
        }
    }

    /// The JSON schema of documents.
    pub fn json_schema() -> Value {
        crate::spec::schema_of::<Document>()
    }

    /// Reads a document. Fails if a newer version of the format wrote it.
    ///
    /// ```
    /// use euphrates_flow::Document;
    ///
    /// let newer = r#"{"euphrates": 99, "name": "daily", "modules": []}"#;
    /// let error = Document::from_json(newer).unwrap_err();
    /// assert_eq!(error.message(), "the flow is of version 99");
    /// assert!(Document::from_json("{}").is_err(), "no flow");
    /// ```
    pub fn from_json(text: &str) -> Result<Document> {
        check_json(text.as_bytes(), "the flow")?;
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Error::usage(format!("the flow is not valid JSON: {error}")))?;
        match value.get("euphrates").and_then(Value::as_u64) {
            Some(version) if version > u64::from(DOCUMENT_VERSION) => {
                let message = format!("the flow is of version {version}");
                return Err(Error::usage(message)
                    .remedy(format!("this program reads up to {DOCUMENT_VERSION}: upgrade it")));
            }
            Some(_) => {}
            None => {
                return Err(Error::usage("the JSON is not a flow: it has no `euphrates` version")
                    .remedy("see the flow document's schema: `euphrates show --schema`"));
            }
        }
        let mut document: Document = serde_json::from_value(value)
            .map_err(|error| Error::usage(format!("the flow document is malformed: {error}")))?;
        for node in &mut document.modules {
            if let Some((_, name)) = RENAMED_MODULES.iter().find(|(old, _)| *old == node.module) {
                node.module = (*name).into();
            }
        }
        document.refuse_keys()?;
        Ok(document)
    }

    /// Fails if an address holds a key, since documents are stored, shown and sent.
    fn refuse_keys(&self) -> Result<()> {
        for node in &self.modules {
            let place = |error: Error| error.at(format!("module {}", node.id));
            refuse_keys_of(&node.config).map_err(place)?;
        }
        for (name, variable) in &self.variables {
            let value = variable.default.iter().try_for_each(refuse_keys);
            value.map_err(|error| error.at(format!("variable {name}")))?;
        }
        Ok(())
    }

    /// The document as JSON, indented by two spaces.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a document is always JSON")
    }

    /// Places a module and returns its id: the name of its spec and a number.
    ///
    /// ```
    /// use euphrates_flow::Document;
    /// use serde_json::json;
    ///
    /// let mut flow = Document::new("daily");
    /// let scan = flow.place("scan", json!({"path": "days/*.csv"}), None);
    /// let count = flow.place("count", json!({}), None);
    /// flow.attach(&scan, &count);
    /// assert_eq!(Document::from_json(&flow.to_json())?.node("scan_1").unwrap().module, "scan");
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn place(&mut self, module: &str, config: Value, count: Option<usize>) -> String {
        let id = self.next_id(module);
        self.place_as(&id, module, config, count)
    }

    /// Places a module under an id of the caller's choice, which no other module may have, and
    /// returns it.
    ///
    /// ```
    /// use euphrates_flow::Document;
    /// use serde_json::json;
    ///
    /// let mut flow = Document::new("daily");
    /// flow.place_as("days", "scan", json!({"path": "days/*.csv"}), Some(4));
    /// assert_eq!(flow.node("days").map(|node| node.count), Some(Some(4)));
    /// assert_eq!(flow.next_id("scan"), "scan_1", "the name of a spec gives other ids");
    /// ```
    pub fn place_as(
        &mut self,
        id: &str,
        module: &str,
        config: Value,
        count: Option<usize>,
    ) -> String {
        let config = match config {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        self.modules.push(Node {
            id: id.into(),
            module: module.into(),
            config,
            count,
            per_worker: None,
            workers: vec![],
        });
        id.into()
    }

    /// The id that `place` would choose now.
    pub fn next_id(&self, module: &str) -> String {
        let mut ids = (1..).map(|n| format!("{module}_{n}"));
        ids.find(|id| self.node(id).is_none()).expect("numbers do not end")
    }

    /// Attaches two modules by their default ports; see [`Edge::output`] and [`Edge::input`].
    ///
    /// ```
    /// use euphrates_flow::document::Port;
    /// use euphrates_flow::{Document, QueueKind};
    /// use serde_json::json;
    ///
    /// let mut flow = Document::new("daily");
    /// let join = flow.place("join", json!({}), None);
    /// let scan = flow.place("scan", json!({}), None);
    /// let queue = flow.attach(&scan, &join);
    /// queue.input = Some(Port::Name("right".into()));
    /// queue.queue = Some(QueueKind::Broadcast);
    /// assert_eq!((&*flow.queues[0].from, &*flow.queues[0].to), ("scan_1", "join_1"));
    /// ```
    pub fn attach(&mut self, from: &str, to: &str) -> &mut Edge {
        self.queues.push(Edge {
            from: from.into(),
            output: None,
            to: to.into(),
            input: None,
            queue: None,
            bytes_max: None,
        });
        self.queues.last_mut().expect("just pushed")
    }

    /// The module with this id.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.modules.iter().find(|node| node.id == id)
    }

    /// The document with every variable replaced by its value.
    ///
    /// ```
    /// use euphrates_flow::Document;
    /// use serde_json::json;
    /// use std::collections::BTreeMap;
    ///
    /// let mut flow = Document::new("daily");
    /// flow.place("scan", json!({"path": {"$var": "days"}}), None);
    /// flow.variables.insert("days".into(), Default::default());
    /// let bound = flow.bind(&BTreeMap::from([("days".into(), json!("a.csv"))]))?;
    /// assert_eq!(bound.modules[0].config["path"], "a.csv");
    /// let error = flow.bind(&BTreeMap::new()).unwrap_err();
    /// assert_eq!(error.message(), "variable `days` has no value");
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn bind(&self, values: &BTreeMap<String, Value>) -> Result<Document> {
        let names = || self.variables.keys().map(String::as_str);
        if let Some(stranger) = values.keys().find(|name| !self.variables.contains_key(*name)) {
            return Err(unknown("variable", stranger, names()));
        }
        let lookup = |name: &str| -> Result<Value> {
            let variable =
                self.variables.get(name).ok_or_else(|| unknown("variable", name, names()))?;
            values.get(name).or(variable.default.as_ref()).cloned().ok_or_else(|| {
                Error::usage(format!("variable `{name}` has no value"))
                    .remedy(format!("give one: `-p {name}=…`, or go({name}=…)"))
            })
        };
        let mut bound = self.clone();
        for node in &mut bound.modules {
            for value in node.config.values_mut() {
                substitute(value, &lookup).map_err(|e| e.at(format!("module {}", node.id)))?;
            }
        }
        bound.refuse_keys()?;
        Ok(bound)
    }
}

fn substitute(value: &mut Value, lookup: &impl Fn(&str) -> Result<Value>) -> Result<()> {
    if let Some(name) = variable_name(value) {
        *value = lookup(name)?;
        return Ok(());
    }
    match value {
        Value::Object(map) => map.values_mut().try_for_each(|inner| substitute(inner, lookup)),
        Value::Array(items) => items.iter_mut().try_for_each(|inner| substitute(inner, lookup)),
        _ => Ok(()),
    }
}

/// The name in `{"$var": name}`.
///
/// ```
/// use euphrates_flow::document::variable_name;
/// use serde_json::json;
///
/// assert_eq!(variable_name(&json!({"$var": "days"})), Some("days"));
/// assert_eq!(variable_name(&json!({"$var": "days", "more": 1})), None);
/// ```
pub fn variable_name(value: &Value) -> Option<&str> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    map.get("$var")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variables_bind_at_any_depth_or_are_named_when_missing() {
        let mut document = Document::new("copy");
        document.place("scan", json!({"path": {"$var": "from"}, "x": [{"$var": "from"}]}), None);
        document.variables.insert("from".into(), Variable::default());
        let values = BTreeMap::from([("from".to_string(), json!("a.csv"))]);
        let bound = document.bind(&values).unwrap();
        assert_eq!(bound.modules[0].config["path"], json!("a.csv"));
        assert_eq!(bound.modules[0].config["x"], json!(["a.csv"]));
        let missing = document.bind(&BTreeMap::new()).unwrap_err().to_string();
        assert!(missing.contains("`from` has no value"), "{missing}");
        let typo = BTreeMap::from([("form".to_string(), json!(1))]);
        assert!(document.bind(&typo).unwrap_err().to_string().contains("did you mean `from`"));
    }

    #[test]
    fn renamed_modules_are_read_by_their_old_names() {
        let node = r#"{"id": "sql_1", "module": "sql", "config": {}}"#;
        let text = format!(r#"{{"euphrates": 1, "name": "x", "modules": [{node}]}}"#);
        let document = Document::from_json(&text).unwrap();
        assert_eq!(document.modules[0].module, "external_sql");
        assert_eq!(document.modules[0].id, "sql_1");
    }

    #[test]
    fn document_of_newer_version_is_refused() {
        let error = Document::from_json(r#"{"euphrates": 99, "name": "x"}"#).unwrap_err();
        assert!(error.to_string().contains("upgrade"), "{error}");
        assert!(Document::from_json("{}").unwrap_err().to_string().contains("not a flow"));
    }
}
