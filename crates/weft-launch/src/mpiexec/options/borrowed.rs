//! Takes over what variables of other launchers say and no option has said.

use super::{INTERFACE, Parser, read_host_file, shell_words};
use crate::mpiexec::settings::Loudness;
use crate::mpiexec::variables::{self, Said};
use std::ffi::OsString;

impl Parser<'_> {
    /// Takes what other launchers' variables say and no option has said.
    pub(super) fn borrow(&mut self) -> Result<(), String> {
        let variable = |name: &str| (self.variable)(name).map(|value| value.to_string_lossy().into_owned());
        let borrowed = variables::read(&variable);
        let settings = &mut self.settings;
        let taken = |by: &str, what: &str| (Loudness::Verbose, format!("the variable {by} says {what}"));
        let named = !settings.hosts.is_empty() || settings.blocks.iter().any(|block| !block.hosts.is_empty());
        if let Some(Said { by, value }) = borrowed.host_file.filter(|_| !named) {
            read_host_file(settings, &value).map_err(|why| format!("the variable {by}: {why}"))?;
            settings.notes.push(taken(by, &format!("the hosts: those of {value}")));
        }
        if let Some(Said { by, value }) = borrowed.slots_per_host {
            let blocks = settings.blocks.iter_mut().flat_map(|block| &mut block.hosts);
            for host in settings.hosts.iter_mut().chain(blocks).filter(|host| host.slots.is_none()) {
                host.slots = Some(value);
            }
            settings.notes.push(taken(by, &format!("the slots of a host without a number: {value}")));
        }
        if let Some(Said { by, value }) = borrowed.ranks_per_host.filter(|_| settings.ranks_per_host.is_none()) {
            settings.ranks_per_host = Some(value);
            settings.notes.push(taken(by, &format!("the ranks per host: {value}")));
        }
        let shell = &mut settings.remote_shell;
        let parts = [
            (&mut shell.program, borrowed.remote_shell, "the remote shell"),
            (&mut shell.arguments, borrowed.remote_shell_arguments, "the remote shell's arguments"),
        ];
        for (place, said, what) in parts {
            if let Some(Said { by, value }) = said.filter(|_| place.is_none()) {
                *place = Some(shell_words(by, &value)?);
                settings.notes.push(taken(by, &format!("{what}: {value}")));
            }
        }
        let is_said = |(name, _): &(OsString, OsString)| name == INTERFACE;
        let unsaid = (self.variable)(INTERFACE).is_none() && !self.set.iter().any(is_said);
        if let Some(Said { by, value }) = borrowed.interface.filter(|_| unsaid) {
            for block in settings.blocks.iter_mut().filter(|block| !block.environment.set.iter().any(is_said)) {
                block.environment.set.push((INTERFACE.into(), value.clone().into()));
            }
            settings.notes.push(taken(by, &format!("the interface: {value}")));
        }
        let without_effect = borrowed.without_effect.into_iter().map(|text| (Loudness::Verbose, text));
        settings.notes.extend(without_effect);
        Ok(())
    }
}
