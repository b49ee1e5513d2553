//! Names of files of shared memory and of sockets that the processes of a node share, and that other users
//! can see.
//!
//! `start.rs` uses them for the node's segment and AF_XDP, and `one_sided/creation.rs` for windows.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use weft_core::process::JobId;
use weft_launch::JobSecret;

/// The maker of names for one node of a job. A stranger who has seen some names cannot guess another, so no
/// stranger can take a name first.
#[derive(Clone)]
pub(crate) struct SharedNames {
    node: SipHasher13,
    job: JobId,
}

impl SharedNames {
    /// The names for the node whose first process is `first`. `node` is `WEFT_NODE`, by which one machine
    /// plays several nodes.
    pub(crate) fn new(secret: &JobSecret, first: u32, node: Option<&str>) -> Self {
        let mut hasher = SipHasher13::new_with_key(secret.expose());
        let mut job = hasher;
        job.write(b"job");
        hasher.write_u32(first);
        let node = node.unwrap_or_default();
        hasher.write_usize(node.len());
        hasher.write(node.as_bytes());
        Self { node: hasher, job: JobId(job.finish()) }
    }

    /// The number of the job, the same in all its processes. It is made of the secret, but does not reveal
    /// it.
    pub(crate) fn job_id(&self) -> JobId {
        self.job
    }

    /// The name of a shared thing of kind `what` with these numbers.
    pub(crate) fn name(&self, what: &str, numbers: &[u32]) -> String {
        let mut hasher = self.node;
        hasher.write_usize(what.len());
        hasher.write(what.as_bytes());
        numbers.iter().for_each(|number| hasher.write_u32(*number));
        format!("{:016x}", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_of_each_node_of_each_job_has_a_name_of_its_own() {
        let names = |secret, first, node| SharedNames::new(&JobSecret::new([secret; JobSecret::LENGTH]), first, node);
        let makers = [names(1, 0, None), names(2, 0, None), names(1, 1, None), names(1, 0, Some("a"))];
        let things: [(&str, &[u32]); 5] = [("node", &[]), ("xdp", &[]), ("w", &[1, 2]), ("w", &[2, 1]), ("w1", &[2])];
        let all: Vec<String> =
            makers.iter().flat_map(|maker| things.iter().map(|(what, numbers)| maker.name(what, numbers))).collect();
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(names(1, 0, None).name("w", &[1, 2]), makers[0].name("w", &[1, 2]));
        let [one, other, far, virtual_node] = makers.map(|maker| maker.job_id());
        assert!(one != other && one == far && one == virtual_node);
    }
}
