//! Wraps the lines of help, which the parser of the command line leaves as long as they are.

/// Columns of a line, at most.
const WIDTH_MAX: usize = 100;
/// Columns that a wrapped line has at least, whatever its indentation.
const WIDTH_MIN: usize = 40;

/// The text with no line wider than a line of help may be, except for single words. The rest of a
/// line begins below what stands behind its last gap of two spaces.
pub fn wrapped(text: &str) -> String {
    text.split('\n').map(wrapped_line).collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str) -> String {
    if width_of(line) <= WIDTH_MAX {
        return line.to_string();
    }
    let gap = line.rfind("  ").map_or(0, |gap| gap + 2);
    let indent = width_of(&line[..gap]);
    let indent = if indent + WIDTH_MIN > WIDTH_MAX { 4 } else { indent };
    let (mut text, mut width) = (line[..gap].to_string(), width_of(&line[..gap]));
    let mut is_first = true;
    for word in line[gap..].split(' ') {
        let next = width_of(word);
        match (is_first, width + 1 + next > WIDTH_MAX) {
            (true, _) => width += next,
            (false, true) => {
                text += &format!("\n{:indent$}", "");
                width = indent + next;
            }
            (false, false) => {
                text.push(' ');
                width += 1 + next;
            }
        }
        text += word;
        is_first = false;
    }
    text
}

/// Columns of a text on a terminal, without the sequences that colour it.
fn width_of(text: &str) -> usize {
    let mut is_colour = false;
    let visible = text.chars().filter(|c| {
        let is_visible = !is_colour && *c != '\x1b';
        is_colour = if is_colour { *c != 'm' } else { *c == '\x1b' };
        is_visible
    });
    visible.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Arguments;
    use clap::{Command, CommandFactory};

    #[test]
    fn a_long_line_continues_below_its_description() {
        let line = format!("  \x1b[1m-o\x1b[0m  {}", "word ".repeat(30).trim_end());
        let text = wrapped(&format!("short\n{line}\n"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "short"));
        assert!(lines.iter().all(|line| width_of(line) <= WIDTH_MAX), "{text}");
        assert!(lines[2].starts_with("      word"), "{text}");
        assert_eq!(text.replace("\n      ", " ").trim_end(), format!("short\n{line}"));
    }

    #[test]
    fn no_line_of_help_is_too_wide() {
        fn check(command: &mut Command) {
            for help in [command.render_long_help(), command.render_help()] {
                let help = wrapped(&help.to_string());
                // Examples are typed as they are.
                let help = help.split("Example").next().unwrap_or_default().to_string();
                for line in help.lines() {
                    let is_word = !line.trim().contains(' ');
                    assert!(is_word || width_of(line) <= WIDTH_MAX, "{line}");
                }
            }
            command.get_subcommands_mut().for_each(check);
        }
        let mut root = Arguments::command();
        root.build();
        check(&mut root);
    }
}
