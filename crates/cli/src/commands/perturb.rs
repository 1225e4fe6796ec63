//! `perturb`: runs a flow under injected slowdowns, and reports how it performed.

use std::path::PathBuf;

use clap::Args;
use euphrates_engine::Options;
use euphrates_flow::size::Size;
use euphrates_flow::{Document, Error, Perturbation, Result};

use crate::flow_file::{load, variables};
use crate::host::Host;
use crate::options::{Log, ResourceOptions};
use crate::runner;
use crate::terminal::print;

/// The help text on the times of perturbations.
pub const WHEN_HELP: &str = "\
    WHEN is @AFTER+LASTS~EVERY in seconds, each part as needed: @2+10 begins after 2 s and lasts \
    10 s; @5+1~20 lasts 1 s and comes again every 20 s.";

/// Arguments of `euphrates perturb`.
#[derive(Debug, Args)]
pub struct Perturb {
    /// A flow document (JSON), or a Python file that builds one
    #[arg(required_unless_present = "schema")]
    pub flow: Option<PathBuf>,
    /// The value of a variable; JSON, or else text
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// Slow an instance (map_1.2) or all of a module (map_1): map_1.2=75% takes three quarters of
    /// its speed, map_1.2=4x makes it four times as slow; may be repeated
    #[arg(long, value_name = "WHO=SHARE[WHEN]")]
    pub slow: Vec<String>,
    /// Let an instance or a module stand still for a while: scan_1.0@2+3; may be repeated
    #[arg(long, value_name = "WHO[WHEN]")]
    pub pause: Vec<String>,
    /// Hold a disk to a rate: d1=5MB/s; may be repeated
    #[arg(long, value_name = "NAME=RATE[WHEN]")]
    pub disk: Vec<String>,
    /// Hold what one worker of a cluster sends to another to a rate: w0>w1=5MB/s; may be repeated
    #[arg(long, value_name = "FROM>TO=RATE[WHEN]")]
    pub link: Vec<String>,
    /// Hold memory: 1GB; may be repeated
    #[arg(long, value_name = "SIZE[WHEN]")]
    pub hog: Vec<String>,
    /// Seconds until perturbations begin that do not say when [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub after: Option<f64>,
    /// Seconds they last [default: to the end]
    #[arg(long, value_name = "SECONDS")]
    pub lasts: Option<f64>,
    /// Seconds from one beginning to the next [default: they come once]
    #[arg(long, value_name = "SECONDS")]
    pub every: Option<f64>,
    /// A file with a list of perturbations in JSON
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Print the JSON schema of such a list instead
    #[arg(long)]
    pub schema: bool,
    /// Resources of the flow.
    #[command(flatten)]
    pub resources: ResourceOptions,
}

/// Runs the flow with its perturbations, and prints the rows that it collected.
pub fn run(command: Perturb, log: Log, host: &dyn Host) -> Result<()> {
    let Some(flow) = command.flow.as_ref().filter(|_| !command.schema) else {
        let schema = serde_json::to_string_pretty(&Perturbation::json_schema());
        return print(&(schema.unwrap_or_default() + "\n"));
    };
    let document = load(flow, host)?;
    let options = Options {
        variables: variables(&command.params)?,
        perturbations: perturbations(&command, &document)?,
        ..runner::options(&command.resources, host)?
    };
    if options.perturbations.is_empty() {
        return Err(Error::usage("nothing is perturbed")
            .remedy("say what: --slow map_1.2=75%, --pause, --disk, --link, --hog, --from"));
    }
    runner::run_and_print_rows(&document, &host.registry(), &options, log)
}

fn perturbations(command: &Perturb, flow: &Document) -> Result<Vec<Perturbation>> {
    let mut all = match &command.from {
        None => vec![],
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Error::os("read the perturbations", path, &error))?;
            Perturbation::list_from_json(&text).map_err(|error| error.at(path.display()))?
        }
    };
    for text in &command.slow {
        let (target, share, when) = split(text, true)?;
        all.push(Perturbation {
            share: Some(share_of(share)?),
            ..perturbation_of(target, flow, when)
        });
    }
    for text in &command.pause {
        let (target, _, when) = split(text, false)?;
        all.push(Perturbation { pause: true, ..perturbation_of(target, flow, when) });
    }
    for text in &command.disk {
        let (name, rate, when) = split(text, true)?;
        let (disk, rate) = (Some(name.into()), Some(Size::Text(rate.into())));
        all.push(Perturbation { disk, rate, ..when });
    }
    for text in &command.link {
        let (name, rate, when) = split(text, true)?;
        let (link, rate) = (Some(name.into()), Some(Size::Text(rate.into())));
        all.push(Perturbation { link, rate, ..when });
    }
    for text in &command.hog {
        let (size, _, when) = split(text, false)?;
        all.push(Perturbation { memory: Some(Size::Text(size.into())), ..when });
    }
    for one in &mut all {
        if (one.after, one.lasts, one.every) == (None, None, None) {
            (one.after, one.lasts, one.every) = (command.after, command.lasts, command.every);
        }
    }
    Ok(all)
}

/// A perturbation of the module of this name, or else of the instance.
fn perturbation_of(target: &str, flow: &Document, when: Perturbation) -> Perturbation {
    match flow.node(target) {
        Some(_) => Perturbation { module: Some(target.into()), ..when },
        None => Perturbation { instance: Some(target.into()), ..when },
    }
}

/// Splits `TARGET=VALUE@AFTER+LASTS~EVERY` into target, value and times.
fn split(text: &str, has_value: bool) -> Result<(&str, &str, Perturbation)> {
    let (body, when) = match text.rsplit_once('@') {
        Some((body, when)) => (body, when),
        None => (text, ""),
    };
    let wrong = |what: &str| Error::usage(format!("`{text}`: {what}"));
    let (target, value) = match body.split_once('=') {
        Some(parts) if has_value => parts,
        None if !has_value => (body, ""),
        _ if has_value => return Err(wrong("no value").remedy("write WHO=WHAT, like d1=5MB/s")),
        _ => return Err(wrong("a value too many").remedy("write WHO, or WHO@2+10")),
    };
    let (when, every) = part(when, '~');
    let (after, lasts) = part(when, '+');
    let number = |text: Option<&str>| match text {
        None | Some("") => Ok(None),
        Some(text) => text.trim_end_matches('s').parse().map(Some).map_err(|_| {
            wrong("no time").remedy("write @2+10~30: after 2 s, for 10 s, every 30 s")
        }),
    };
    let (after, lasts, every) = (number(Some(after))?, number(lasts)?, number(every)?);
    Ok((target, value, Perturbation { after, lasts, every, ..Perturbation::default() }))
}

fn part(text: &str, sign: char) -> (&str, Option<&str>) {
    text.split_once(sign).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// Parses the share of speed that is taken: `75%`, `0.75`, or `4x` for four times as slow.
fn share_of(text: &str) -> Result<f64> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let share = match (text.strip_suffix('%'), text.strip_suffix('x')) {
        (Some(percent), _) => number(percent).map(|percent| percent / 100.0),
        (_, Some(times)) => number(times).map(|times| 1.0 - 1.0 / times),
        _ => number(text),
    };
    share.ok_or_else(|| {
        Error::usage(format!("`{text}` is no share")).remedy("write 75%, 0.75 or 4x")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perturbations_parse_from_short_notation() {
        let (target, what, when) = split("map_1.2=75%@2s+10s~30s", true).unwrap();
        assert_eq!((target, what), ("map_1.2", "75%"));
        assert_eq!((when.after, when.lasts, when.every), (Some(2.0), Some(10.0), Some(30.0)));
        let (target, _, when) = split("scan_1.0@+3", false).unwrap();
        assert_eq!((target, when.after, when.lasts), ("scan_1.0", None, Some(3.0)));
        let (_, rate, when) = split("d1=5MB/s@1.5", true).unwrap();
        assert_eq!((rate, when.after, when.lasts), ("5MB/s", Some(1.5), None));
        assert!(split("map_1.2", true).is_err() && split("a=b", false).is_err());
        assert!(split("a@soon", false).is_err());
        let shares: Vec<f64> = ["75%", "0.75", "4x"].map(|text| share_of(text).unwrap()).into();
        assert_eq!(shares, [0.75; 3]);
        assert!(share_of("much").is_err());
    }
}
