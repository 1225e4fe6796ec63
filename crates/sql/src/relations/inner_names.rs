//! A name that `with` gives in a subquery may be that of another one around it. The planner knows
//! each name once, so the inner one gets another name, wherever it is meant.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Ident, ObjectName, Query, TableAlias, TableFactor, VisitMut, VisitorMut,
};

use super::parsed_query;

/// Renames such tables in a query.
pub(super) fn rename(query: &mut Query) {
    let mut names = InnerNames { scopes: vec![], taken: HashSet::new(), finished: vec![] };
    let _: ControlFlow<()> = query.visit(&mut names);
}

struct InnerNames {
    /// The names of the queries around, each with the one that it has now.
    scopes: Vec<Vec<(String, String)>>,
    taken: HashSet<String>,
    /// The finished queries of each `with` around, out of the tree so that none is visited again.
    finished: Vec<Vec<Query>>,
}

impl InnerNames {
    fn new_of(&self, name: &ObjectName) -> Option<(String, String)> {
        let [part] = &name.0[..] else { return None };
        let name = part.as_ident()?.value.to_lowercase();
        let known = self.scopes.iter().rev().flatten();
        known.into_iter().find(|(old, _)| *old == name).cloned()
    }
}

impl VisitorMut for InnerNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.push(vec![]);
        let mut finished = vec![];
        let is_recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            // By its own name, a query that is not recursive means a table around it.
            if !is_recursive {
                let _: ControlFlow<()> = table.query.visit(self);
                let Ok(empty) = parsed_query("select 1") else { continue };
                finished.push(std::mem::replace(&mut *table.query, empty));
            }
            let old = table.alias.name.value.to_lowercase();
            // Twice in one query is an error of its author.
            let is_taken = self.scopes.iter().flatten().any(|(known, _)| *known == old);
            let mut new = table.alias.name.value.clone();
            if is_taken {
                let mut numbers = (1..).map(|number| format!("{old}_{number}"));
                new = numbers.find(|new| !self.taken.contains(new)).expect("numbers do not end");
                table.alias.name = Ident::with_quote('"', new.clone());
            }
            self.taken.insert(new.to_lowercase());
            self.scopes.last_mut().expect("it was pushed").push((old, new));
        }
        self.finished.push(finished);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        let tables = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
        for (table, finished) in tables.zip(self.finished.pop().unwrap_or_default()) {
            *table.query = finished;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = table else {
            return ControlFlow::Continue(());
        };
        let Some((old, new)) = self.new_of(name).filter(|(old, new)| *old != new.to_lowercase())
        else {
            return ControlFlow::Continue(());
        };
        if alias.is_none() {
            let name = Ident::new(old);
            *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
        }
        *name = vec![Ident::with_quote('"', new)].into();
        ControlFlow::Continue(())
    }
}
