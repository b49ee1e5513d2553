//! `targets list`, `targets seeds TARGET DIRECTORY`, `targets run TARGET FILE…`: the commands that
//! `make fuzz` uses, and that repeat a crash.
#![forbid(unsafe_code)]

use std::path::Path;

use weft_fuzz::{Target, targets};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => targets().iter().for_each(|target| println!("{}", target.name)),
        ["seeds", name, directory] => {
            std::fs::create_dir_all(directory)?;
            for (number, seed) in (find(name)?.seeds)().iter().enumerate() {
                std::fs::write(Path::new(directory).join(format!("seed-{number}")), seed)?;
            }
        }
        ["run", name, files @ ..] => {
            for file in files {
                (find(name)?.run)(&std::fs::read(file)?);
                println!("{name}: {file} is borne");
            }
        }
        _ => anyhow::bail!("usage: targets list | seeds TARGET DIRECTORY | run TARGET FILE…"),
    }
    Ok(())
}

fn find(name: &str) -> anyhow::Result<&'static Target> {
    let known: Vec<&str> = targets().iter().map(|target| target.name).collect();
    let target = targets().iter().find(|target| target.name == name);
    target.ok_or_else(|| anyhow::anyhow!("{name} is no target; there are {}", known.join(", ")))
}
