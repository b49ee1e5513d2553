//! The options of the command line about processors, in the words of Open MPI and of Hydra.

use super::settings::{Loudness, Settings, number};
use crate::control::{BindTo, MapBy};
use crate::hosts::Order;

/// `--bind-to core`, with modifiers after colons.
///
/// # Errors
/// One sentence about the word that is wrong.
pub(crate) fn bind_to(settings: &mut Settings, name: &str, text: &str) -> Result<(), String> {
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split(':');
    let binding = &mut settings.binding;
    binding.to = Some(match words.next().unwrap_or_default() {
        // Ranks may use the whole host anyway.
        "none" | "board" | "machine" | "node" => BindTo::None,
        "hwthread" | "thread" | "ht" => BindTo::Thread,
        "core" | "cpu" => BindTo::Core,
        "socket" | "package" => BindTo::Socket,
        "numa" | "numanode" => BindTo::Numa,
        _ => {
            return Err(format!("{name}: ranks can be bound to none, hwthread, core, socket or numa, not to `{text}`"));
        }
    });
    for word in words {
        match word {
            "report" => binding.report = true,
            "if-supported" | "ordered" => {}
            // In Hydra's words: that many units for each rank.
            count if count.bytes().all(|byte| byte.is_ascii_digit()) => binding.each = number(name, count)?,
            _ => settings.notes.push((Loudness::Everybody, format!("`:{word}` of `{name} {text}` has no effect here"))),
        }
    }
    Ok(())
}

/// `--map-by socket:PE=2`: the placement of ranks among hosts (`slot`, `node`, `ppr:N:node`) and within a
/// host.
///
/// # Errors
/// One sentence about the word that is wrong.
pub(crate) fn map_by(settings: &mut Settings, name: &str, text: &str) -> Result<(), String> {
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split(':');
    let no_effect = |what: &str| (Loudness::Everybody, format!("{what} has no effect here"));
    let binding = &mut settings.binding;
    match words.next().unwrap_or_default() {
        "slot" | "" => settings.order = Order::BySlot,
        "node" | "host" | "machine" => settings.order = Order::ByHost,
        "core" => binding.implied = Some(BindTo::Core),
        "hwthread" | "thread" => binding.implied = Some(BindTo::Thread),
        "socket" | "package" => (binding.by, binding.implied) = (MapBy::Socket, Some(BindTo::Core)),
        "numa" | "numanode" => (binding.by, binding.implied) = (MapBy::Numa, Some(BindTo::Core)),
        "ppr" => {
            let each = number("--map-by ppr", words.next().unwrap_or_default())?;
            match words.next().unwrap_or_default() {
                "node" | "host" => settings.ranks_per_host = Some(each),
                _ => settings.notes.push(no_effect(&format!("`{name} {text}`"))),
            }
        }
        _ => settings.notes.push(no_effect(&format!("`{name} {text}`"))),
    }
    for word in words {
        match (word, word.strip_prefix("pe=")) {
            (_, Some(count)) => each(settings, "PE=", count)?,
            ("oversubscribe", _) => settings.oversubscribe = true,
            ("nooversubscribe", _) => settings.oversubscribe = false,
            _ => settings.notes.push(no_effect(&format!("`:{word}` of `{name} {text}`"))),
        }
    }
    Ok(())
}

/// Sets the number of cores of each rank, which is bound to them.
///
/// # Errors
/// One sentence about the word that is wrong.
pub(crate) fn each(settings: &mut Settings, name: &str, text: &str) -> Result<(), String> {
    let binding = &mut settings.binding;
    binding.each = number(name, text)?;
    binding.implied = binding.implied.or(Some(BindTo::Core));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::options::{Request, parse};
    use super::*;

    fn binding_of(line: &str) -> Result<(BindTo, MapBy, u32, bool), String> {
        let words = line.split(' ').map(Into::into).collect();
        match parse(words, &|_| None)? {
            Request::Run(settings) => {
                let binding = settings.binding;
                Ok((binding.to(), binding.by, binding.each, binding.report))
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn both_families_say_it_in_their_words() {
        let bound = |to, by, each| Ok((to, by, each, false));
        assert_eq!(binding_of("-n 2 a"), bound(BindTo::None, MapBy::Slot, 1));
        for line in ["--bind-to core a", "-bind-to core a", "--bind-to=core a", "--bind-to-core a", "--bind-to CORE a"]
        {
            assert_eq!(binding_of(line), bound(BindTo::Core, MapBy::Slot, 1), "{line}");
        }
        assert_eq!(binding_of("-bind-to core:3 a"), bound(BindTo::Core, MapBy::Slot, 3));
        assert_eq!(binding_of("--bind-to package --map-by numa a"), bound(BindTo::Socket, MapBy::Numa, 1));
        assert_eq!(binding_of("--bind-to-socket a"), bound(BindTo::Socket, MapBy::Slot, 1));
        assert_eq!(binding_of("--bind-to numa a"), bound(BindTo::Numa, MapBy::Slot, 1));
        assert_eq!(binding_of("--bind-to hwthread a"), bound(BindTo::Thread, MapBy::Slot, 1));
        assert_eq!(binding_of("--map-by slot:PE=2 a"), bound(BindTo::Core, MapBy::Slot, 2));
        assert_eq!(binding_of("--map-by socket:PE=4 a"), bound(BindTo::Core, MapBy::Socket, 4));
        assert_eq!(binding_of("--cpus-per-rank 2 a"), bound(BindTo::Core, MapBy::Slot, 2));
        assert_eq!(binding_of("--map-by socket --bind-to none a"), bound(BindTo::None, MapBy::Socket, 1));
        assert_eq!(binding_of("--report-bindings --map-by core a"), Ok((BindTo::Core, MapBy::Slot, 1, true)));
    }

    #[test]
    fn nonsense_is_named() {
        assert!(binding_of("--bind-to moon a").expect_err("no such thing").contains("not to `moon`"));
        assert!(binding_of("--map-by slot:PE=0 a").expect_err("none").contains("PE="));
        assert!(binding_of("--bind-to core:0 a").is_err());
    }
}
