//! Formats expressions of generated code: on one line where they fit, else on several.

/// Maximum columns of a line of generated code.
const COLUMNS: usize = 96;

/// An expression: text, or a bracketed group of members.
pub enum Expr {
    /// Text that is written as it is.
    Text(String),
    /// `open`, the members with commas between them, `close`.
    Group {
        /// The opening text, such as a name and a bracket.
        open: String,
        /// The prefix of each member (`key: `, `name=`), and the member.
        members: Vec<(String, Expr)>,
        /// The closing bracket of the group.
        close: &'static str,
    },
}

impl Expr {
    /// A group without members yet.
    pub fn group(open: impl Into<String>, close: &'static str) -> Expr {
        Expr::Group { open: open.into(), members: vec![], close }
    }

    /// Adds a member with a prefix.
    pub fn with(mut self, before: impl Into<String>, member: Expr) -> Expr {
        if let Expr::Group { members, .. } = &mut self {
            members.push((before.into(), member));
        }
        self
    }

    /// Adds a member that is written as it is.
    pub fn and(self, member: impl Into<String>) -> Expr {
        self.with("", Expr::Text(member.into()))
    }

    /// Formats the expression `indent` spaces from the left, behind `before`, with `after` at its
    /// end.
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
