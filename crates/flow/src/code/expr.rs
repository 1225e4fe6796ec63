//! Expressions that are laid out on one line where they fit and on several where they do not.

/// Columns a line of generated code may have.
const COLUMNS: usize = 96;

/// An expression: text, or a bracket with members.
pub enum Expr {
    /// Written as it is.
    Text(String),
    /// `open`, the members with commas between them, `close`.
    Group {
        /// A name and a bracket, say.
        open: String,
        /// What stands before each member (`key: `, `name=`), and the member.
        members: Vec<(String, Expr)>,
        /// The bracket that ends it.
        close: &'static str,
    },
}

impl Expr {
    /// A group.
    pub fn group(open: impl Into<String>, close: &'static str) -> Expr {
        Expr::Group { open: open.into(), members: vec![], close }
    }

    /// This group and one more member.
    pub fn with(mut self, before: impl Into<String>, member: Expr) -> Expr {
        if let Expr::Group { members, .. } = &mut self {
            members.push((before.into(), member));
        }
        self
    }

    /// This group and one more member, written as it is.
    pub fn and(self, member: impl Into<String>) -> Expr {
        self.with("", Expr::Text(member.into()))
    }

    /// The expression as text, `indent` spaces from the left, after `before` and followed by
    /// `after` on its last line.
    pub fn lay_out(&self, indent: usize, before: &str, after: &str) -> String {
        let line = format!("{:indent$}{before}{}{after}", "", self.on_one_line());
        let Expr::Group { open, members, close } = self else { return line };
        if line.chars().count() <= COLUMNS || members.is_empty() {
            return line;
        }
        let mut text = format!("{:indent$}{before}{}\n", "", open.trim_end());
        for (name, member) in members {
            text += &member.lay_out(indent + 4, name, ",");
            text.push('\n');
        }
        text + &format!("{:indent$}{}{after}", "", close.trim_start())
    }

    fn on_one_line(&self) -> String {
        match self {
            Expr::Text(text) => text.clone(),
            Expr::Group { open, members, close } => {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, member)| format!("{name}{}", member.on_one_line()))
                    .collect();
                format!("{open}{}{close}", members.join(", "))
            }
        }
    }
}
