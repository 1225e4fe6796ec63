//! Checks a flow that may come from an untrusted source: user code is called with consent only.

use std::collections::BTreeSet;

use euphrates_flow::check::{CheckedEdge, CheckedFlow, CheckedNode, Reads};
use euphrates_flow::document::Node;
use euphrates_flow::{Document, Registry, Result};

use super::check::check_flow;
use crate::run::options::Options;
use crate::run::survey::survey;

/// Whether a check may call the functions, classes and queries that a flow names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// They are imported and called: for their ports, their columns, their rows.
    Given,
    /// They are neither imported nor called.
    Withheld,
}

/// The result of a check.
pub struct CheckResult {
    /// The name of the flow.
    pub name: String,
    /// The flow as it runs. If a module is unchecked: the flow as written, with its variables
    /// replaced by their values.
    pub document: Document,
    /// The modules, producers before consumers.
    pub nodes: Vec<CheckedNode>,
    /// The queues between the checked modules.
    pub edges: Vec<CheckedEdge>,
    /// The modules that were not checked, in the document's order.
    pub unchecked: Vec<Unchecked>,
}

/// A module that was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchecked {
    /// Its name in the flow.
    pub id: String,
    /// The name of its spec.
    pub module: String,
    /// Whether it calls user code itself; otherwise it is fed by a module that does.
    pub calls_user_code: bool,
}

/// Checks a flow without starting it. Without consent, modules that call user code are not checked,
/// nor are modules that they feed, since only user code knows the columns.
///
/// # Errors
///
/// The first problem: of variables and counts, then of the check.
///
/// ```
/// use euphrates_engine::Options;
/// use euphrates_engine::run::consent::{Consent, check};
/// use euphrates_flow::{Document, ModuleSpec, Registry};
///
/// static MAP: ModuleSpec = ModuleSpec { name: "map", ..ModuleSpec::USUAL };
/// let registry = Registry::default().with_user_code([&MAP]);
/// let mut flow = Document::new("daily");
/// flow.place("map", serde_json::json!({"function": "os:getcwd"}), None);
/// let checked = check(&flow, &registry, &Options::default(), Consent::Withheld)?;
/// assert_eq!(checked.unchecked[0].id, "map_1", "nothing was imported");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn check(
    document: &Document,
    registry: &Registry,
    options: &Options,
    consent: Consent,
) -> Result<CheckResult> {
    let is_excluded = |node: &Node| registry.calls_user_code(&node.module);
    if consent == Consent::Given || !document.modules.iter().any(is_excluded) {
        return check_flow(document, registry, options).map(CheckResult::from);
    }
    let bound = document.bind(&options.variables)?;
    let survey = survey(document, registry, options, Reads::All, &is_excluded);
    if let Some(problem) = survey.problems.into_iter().next() {
        let place = problem.module.map(|id| format!("module {id}"));
        return Err(match place {
            Some(place) if !problem.error.places().any(|known| known == place) => {
                problem.error.at(place)
            }
            _ => problem.error,
        });
    }
    let seen: BTreeSet<&str> = survey.nodes.iter().map(|node| node.id.as_str()).collect();
    let unseen = bound.modules.iter().filter(|node| !seen.contains(node.id.as_str()));
    let unchecked = unseen.map(|node| Unchecked {
        id: node.id.clone(),
        module: node.module.clone(),
        calls_user_code: is_excluded(node),
    });
    let (name, unchecked) = (document.name.clone(), unchecked.collect());
    Ok(CheckResult { name, unchecked, nodes: survey.nodes, edges: survey.edges, document: bound })
}

impl From<CheckedFlow> for CheckResult {
    fn from(checked: CheckedFlow) -> CheckResult {
        let CheckedFlow { name, document, nodes, edges } = checked;
        CheckResult { name, document, nodes, edges, unchecked: vec![] }
    }
}
