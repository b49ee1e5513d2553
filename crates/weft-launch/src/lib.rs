//! Starting a job and finding the peers.
