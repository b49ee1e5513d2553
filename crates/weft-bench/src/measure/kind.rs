//! The kinds of MPI libraries.

/// The kind of an MPI library, which decides how it is recognized and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Weft,
    Mpich,
    OpenMpi,
    Intel,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Weft, Kind::Mpich, Kind::OpenMpi, Kind::Intel];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Weft => "weft",
            Kind::Mpich => "mpich",
            Kind::OpenMpi => "openmpi",
            Kind::Intel => "impi",
        }
    }
}
