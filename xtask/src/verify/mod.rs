//! `cargo xtask verify`: the full examination, and the report in `docs/verify`.
//!
//! Native boxes with and without each layer, the references, an ordinary user and other kernels: what `hotcell verify`
//! tells one user about one machine, once for the project.

pub(crate) mod elsewhere;
mod page;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use hotcell_verify::Suite;
use hotcell_verify::knockout::Boxes;
use hotcell_verify::report::Report;
use hotcell_verify::target::{self, MadeOf, Target};
use hotcell_verify::verdict::Verdict;

use crate::workspace::{cargo, root, target_directory};
use crate::{process, progress, vm_lab};
use elsewhere::Elsewhere;

/// Longer than a release build takes on a slow machine.
const BUILD_LIMIT: std::time::Duration = std::time::Duration::from_secs(1800);

/// Sandboxes to compare with, where they are installed.
const REFERENCES: &[&str] = &["bwrap", "unshare"];

struct Options {
    out: PathBuf,
    kernels: bool,
}

pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let options = parse(arguments)?;
    let binary = build()?;

    progress::heading("This machine, this user");
    let report = examine()?;
    let mut good = native_is_good(&report) && references_are_as_known(&report);

    progress::heading("Elsewhere");
    let mut others = Vec::new();
    match elsewhere::as_ordinary_user(&binary) {
        Ok(other) => others.push(other),
        Err(error) => println!("  an ordinary user: {error:#}"),
    }
    if options.kernels {
        let staged = elsewhere::stage(&binary)?;
        for suite in vm_lab::SUITES {
            others.push(elsewhere::on_kernel(suite, &staged.program)?);
        }
    }
    good &= others.iter().all(Elsewhere::is_good);

    fs::create_dir_all(&options.out).with_context(|| format!("cannot make {}", options.out.display()))?;
    let write = |name: &str, text: String| {
        let path = options.out.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("README.md", page::overview(&report, &others))?;
    write("cves.md", page::vulnerabilities(&report))?;
    write("latest.html", report.to_html())?;
    let mut json = report.to_json();
    json["elsewhere"] = others.iter().map(|other| other.json.clone()).collect();
    write("latest.json", format!("{json:#}\n"))?;
    println!(
        "\n{} written to {}",
        if good { "all as it should be;" } else { "NOT as it should be;" },
        options.out.display()
    );
    Ok(good)
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { out: root()?.join("docs/verify"), kernels: true };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--no-kernels" => options.kernels = false,
            "--out" => options.out = rest.next().context("`--out` needs a directory")?.into(),
            other => bail!("unknown option `{other}`; usage: cargo xtask verify [--no-kernels] [--out DIR]"),
        }
    }
    Ok(options)
}

/// Builds the program that is run elsewhere.
pub(crate) fn build() -> Result<PathBuf> {
    let line = progress::begin("release binary");
    let mut build = cargo()?;
    build.args(["build", "--quiet", "--release", "--package", "hotcell-cli"]);
    let finished = process::run(&mut build, BUILD_LIMIT)?;
    if !finished.success() {
        line.end_failed("FAILED", &finished.output);
        bail!("there is nothing to verify");
    }
    line.end("ok");
    Ok(target_directory()?.join("release/hotcell"))
}

fn examine() -> Result<Report> {
    let mut targets: Vec<Box<dyn Target>> = vec![target::named("native", &MadeOf::default())?];
    for name in REFERENCES {
        match target::named(name, &MadeOf::default()) {
            Ok(reference) => targets.push(reference),
            Err(error) => println!("  {name}: {error}"),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut suite = Suite::new();
    let mut current = (String::new(), Instant::now());
    let boxes = Boxes::all();
    let examination = Report::examine(&mut suite, &targets, &boxes, |sandbox, _| {
        if current.0 != sandbox {
            let before = std::mem::replace(&mut current, (sandbox.to_owned(), Instant::now()));
            if !before.0.is_empty() {
                println!("  {:<46} {:>8.1} s", before.0, before.1.elapsed().as_secs_f64());
            }
        }
    });
    let report = runtime.block_on(examination);
    println!("  {:<46} {:>8.1} s", current.0, current.1.elapsed().as_secs_f64());
    for run in &report.runs {
        let summary = run.summary();
        println!(
            "  {}: {} held, {} BROKEN, {} vacuous, {} not applicable, {} unexpected",
            run.runtime, summary.held, summary.broken, summary.vacuous, summary.not_applicable, summary.unexpected
        );
        for finding in run.findings.iter().filter(|finding| !finding.is_expected()) {
            println!("    unexpected: {} {}", finding.check.id, finding.verdict);
        }
    }
    Ok(report)
}

fn native_is_good(report: &Report) -> bool {
    report
        .runs
        .iter()
        .filter(|run| run.runtime == "native")
        .all(|run| run.with_verdict(Verdict::Broken).next().is_none())
}

fn references_are_as_known(report: &Report) -> bool {
    report.runs.iter().all(|run| run.summary().unexpected == 0)
}
