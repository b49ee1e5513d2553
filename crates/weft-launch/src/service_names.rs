//! Ports that the processes of a job make known by the name of their service (MPI-5.0 §11.9.4).

use crate::control::{Answer, NameRequest};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The most names of one job.
const NAMES_MAX: usize = 4096;

/// The names of one job.
#[derive(Debug, Default)]
pub(crate) struct ServiceNames(BTreeMap<String, String>);

impl ServiceNames {
    /// Serves a request. The answer is a port, nothing, or a reason.
    pub(crate) fn serve(&mut self, request: NameRequest) -> Answer {
        let (command, answer) = match request {
            NameRequest::Publish { service, port } => {
                let full = self.0.len() >= NAMES_MAX;
                let answer = match self.0.entry(service) {
                    Entry::Occupied(_) => Err("the name is taken".to_string()),
                    Entry::Vacant(_) if full => Err("too many names".to_string()),
                    Entry::Vacant(entry) => {
                        entry.insert(port);
                        Ok(String::new())
                    }
                };
                ("publish", answer)
            }
            NameRequest::Lookup { service } => {
                ("lookup", self.0.get(&service).cloned().ok_or_else(|| "no such name".to_string()))
            }
            NameRequest::Unpublish { service } => {
                let found = self.0.remove(&service).map(|_| String::new());
                ("unpublish", found.ok_or_else(|| "no such name".to_string()))
            }
        };
        Answer::Name { command: command.to_string(), answer }
    }
}
