//! PMIx, which Open MPI's `mpirun` and `prterun` speak, and Slurm (`--mpi=pmix`). The launcher's own libpmix
//! carries the requests: each version of it understands its server.

mod spawning;

use super::notices::RECORD_BYTES;
use super::pmi1::{cut, escaped_card, unescaped_cards};
use super::{Names, Notice, Notices, Observer, ProcessManager, cannot_spawn, exit_aborted};
use crate::sys::pmix::{self, ALL_RANKS, Datum, GONE, Library, NOT_SUPPORTED, Process};
use crate::wire::CARD_MAX;
use crate::{JobSecret, LaunchError, SpawnProgram, Spawned};

/// The library's name for the system's search.
const LIBRARY: &str = "libpmix.so.2";
/// Where a launcher that says its prefix keeps the library.
const BELOW_PREFIX: [&str; 3] = ["lib/libpmix.so.2", "lib64/libpmix.so.2", "lib/openmpi/libpmix.so.2"];

/// The bytes of a card in one value. Longer texts come compressed from some servers, in a form of theirs.
const CARD_PART_BYTES: usize = 2000;

/// A process manager that speaks PMIx.
#[derive(Debug)]
pub(super) struct Pmix {
    library: Library,
    own: Process,
    job: String,
    size: u32,
    /// The number of cards that this process has put.
    exchanges: u32,
    /// Set once this process has said goodbye.
    has_left: bool,
    /// The number of jobs that this process has spawned.
    spawned: u32,
}

/// The files that may be the library, in the order in which they are tried. `prefix` is what the launcher
/// says of itself (`PMIX_PREFIX`); `maps` is the list of files that the parent process, the launcher's
/// daemon, has mapped.
fn files(prefix: Option<&str>, maps: &str) -> Vec<String> {
    let of_daemon = maps.lines().filter_map(|line| {
        let path = &line[line.find('/')?..];
        path.rsplit('/').next()?.starts_with("libpmix.so").then(|| path.to_owned())
    });
    let below = prefix.into_iter().flat_map(|prefix| BELOW_PREFIX.map(|file| format!("{prefix}/{file}")));
    let mut files: Vec<String> = of_daemon.chain(below).chain([LIBRARY.to_owned()]).collect();
    files.dedup();
    files
}

impl Pmix {
    /// Connects to the server of this job.
    ///
    /// # Errors
    /// There is no libpmix, or the server does not answer it.
    pub(super) fn connect(prefix: Option<&str>) -> Result<Self, LaunchError> {
        let parent = std::os::unix::process::parent_id();
        // A daemon of another user keeps its maps to itself.
        let maps = std::fs::read_to_string(format!("/proc/{parent}/maps")).unwrap_or_default();
        let library = Library::open(&files(prefix, &maps)).map_err(|why| {
            LaunchError::Environment(format!(
                "a PMIx launcher started this program, but its {LIBRARY} cannot be used ({why}): set LD_LIBRARY_PATH to \
                 the directory that has it, or start the program with Weft's mpiexec"
            ))
        })?;
        let own = library.init().map_err(|status| {
            LaunchError::Connection(format!(
                "the PMIx server that PMIX_SERVER_URI names does not let this process join its job ({}): its launcher is \
                 gone, or a rank of another job has started this program; unset PMIX_NAMESPACE to run it on its own",
                library.describe(status)
            ))
        })?;
        let job = own.with_rank(ALL_RANKS);
        let size = match library.get(&job, "pmix.job.size") {
            Ok(Some(Datum::Number(size))) if own.rank() < size => size,
            Ok(_) => {
                return Err(LaunchError::Protocol("the PMIx launcher does not say how many ranks there are".into()));
            }
            Err(status) => return Err(refused(&library, "PMIx_Get", status)),
        };
        Ok(Self { library, own, job: own.namespace(), size, exchanges: 0, has_left: false, spawned: 0 })
    }

    /// A fact that the server knows of the job or of this process.
    fn fact(&self, of: &Process, key: &str) -> Option<Datum> {
        self.library.get(of, key).ok().flatten()
    }

    fn number(&self, of: &Process, key: &str) -> Option<i32> {
        match self.fact(of, key)? {
            Datum::Number(number) => i32::try_from(number).ok(),
            Datum::Text(_) => None,
        }
    }

    fn whole_job(&self) -> Process {
        self.own.with_rank(ALL_RANKS)
    }

    fn text_of(&self, rank: u32, key: &str) -> Result<Option<String>, LaunchError> {
        match self.library.get(&self.own.with_rank(rank), key) {
            Ok(Some(Datum::Text(text))) => Ok(Some(text)),
            Ok(_) => Ok(None),
            Err(status) => Err(refused(&self.library, "PMIx_Get", status)),
        }
    }

    /// The card of `rank`. Its first value tells how many values there are: `parts:text`.
    fn card_of(&self, rank: u32) -> Result<String, LaunchError> {
        let missing = || LaunchError::Protocol(format!("the launcher lost the card of rank {rank}"));
        let part = |part| self.text_of(rank, &card_key(self.exchanges, part))?.ok_or_else(missing);
        let first = part(0)?;
        let (count, text) = first.split_once(':').ok_or_else(missing)?;
        let count = count.parse().ok().filter(|count| *count <= CARD_MAX).ok_or_else(missing)?;
        (1..count).try_fold(text.to_owned(), |card, number| Ok(card + &part(number)?))
    }

    /// Fails once this process has said goodbye: the library would crash.
    fn stays(&self) -> Result<(), LaunchError> {
        if self.has_left { Err(LaunchError::Gone) } else { Ok(()) }
    }
}

/// The key under which a process puts a part of its card.
fn card_key(exchange: u32, part: usize) -> String {
    format!("weft-card-{exchange}-{part}")
}

/// The error for a status of the library.
fn refused(library: &Library, request: &'static str, status: i32) -> LaunchError {
    if GONE.contains(&status) {
        return LaunchError::Gone;
    }
    LaunchError::Refused { request, reason: library.describe(status) }
}

const _: () = assert!(RECORD_BYTES == pmix::RECORD_BYTES);

/// The meaning of a record of libpmix; `None` for the last one.
fn notice(record: [u8; RECORD_BYTES]) -> Option<Notice> {
    let [a, b, c, d, e, f, g, h] = record;
    let (status, rank) = (i32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
    match status {
        0 => None,
        lost if pmix::is_loss_of_server(lost) => Some(Notice::ManagerGone),
        pmix::ABORTED => Some(Notice::Aborted),
        failed => Some(Notice::Failed { rank, reason: pmix::reason(failed) }),
    }
}

/// The ranks in a list such as `0,1,4`; `None` where it is none.
fn ranks(list: &str) -> Option<Vec<u32>> {
    let mut ranks = list.split(',').map(|rank| rank.trim().parse().ok()).collect::<Option<Vec<u32>>>()?;
    weft_ordered::sort(&mut ranks);
    Some(ranks)
}

impl ProcessManager for Pmix {
    fn rank(&self) -> u32 {
        self.own.rank()
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn appnum(&self) -> Option<i32> {
        self.number(&self.own, "pmix.appnum")
    }

    fn universe_size(&self) -> Option<i32> {
        self.number(&self.whole_job(), "pmix.univ.size").filter(|size| *size > 0)
    }

    fn job_name(&self) -> &str {
        &self.job
    }

    fn secret(&self) -> Option<JobSecret> {
        None
    }

    fn local_ranks(&mut self) -> Option<Vec<u32>> {
        match self.fact(&self.whole_job(), "pmix.lpeers")? {
            Datum::Text(list) => ranks(&list).filter(|ranks| ranks.contains(&self.own.rank())),
            Datum::Number(_) => None,
        }
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), LaunchError> {
        self.stays()?;
        let put = self.library.put(key, value).and_then(|()| self.library.commit());
        put.map_err(|status| refused(&self.library, "PMIx_Put", status))
    }

    /// PMIx keeps the keys of each process apart, so all processes are asked.
    fn get(&mut self, key: &str) -> Result<Option<String>, LaunchError> {
        self.stays()?;
        for rank in 0..self.size {
            match self.library.get_now(&self.own.with_rank(rank), key) {
                Ok(Some(Datum::Text(text))) => return Ok(Some(text)),
                Ok(_) => {}
                Err(status) => return Err(refused(&self.library, "PMIx_Get", status)),
            }
        }
        Ok(None)
    }

    fn fence(&mut self) -> Result<(), LaunchError> {
        if self.has_left {
            return Ok(());
        }
        self.library.fence().map_err(|status| refused(&self.library, "PMIx_Fence", status))
    }

    fn exchange(&mut self, card: &str) -> Result<Vec<String>, LaunchError> {
        self.exchanges += 1;
        let escaped = escaped_card(card)?;
        let parts = cut(&escaped, CARD_PART_BYTES);
        for (part, text) in parts.iter().enumerate() {
            let head = if part == 0 { format!("{}:", parts.len()) } else { String::new() };
            self.put(&card_key(self.exchanges, part), &(head + text))?;
        }
        self.fence()?;
        let card = |rank| if rank == self.own.rank() { Ok(escaped.clone()) } else { self.card_of(rank) };
        unescaped_cards(&(0..self.size).map(card).collect::<Result<Vec<_>, _>>()?)
    }

    fn abort(&mut self, code: i32, message: &str) -> ! {
        crate::say(&format!("rank {} of {} ends the job with code {code}: {message}", self.own.rank(), self.size));
        if !self.has_left {
            self.library.abort(code, message);
        }
        exit_aborted(code)
    }

    fn finalize(&mut self) -> Result<(), LaunchError> {
        if std::mem::replace(&mut self.has_left, true) {
            return Ok(());
        }
        self.library.finalize().map_err(|status| refused(&self.library, "PMIx_Finalize", status))
    }

    fn can_come_back(&self) -> bool {
        !self.has_left
    }

    fn come_back(&mut self) -> Result<(), LaunchError> {
        if self.can_come_back() {
            return Ok(());
        }
        Err(LaunchError::Protocol("a PMIx launcher lets no process come back that has left its job".into()))
    }

    fn spawn(&mut self, programs: &[SpawnProgram], port: &str) -> Result<Spawned, LaunchError> {
        self.stays()?;
        let own: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let directory = std::env::current_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let mut spawned = Spawned { number: self.spawned + 1, outcomes: Vec::new() };
        let result = spawning::job(programs, port, &own, &directory);
        let result = result.map_err(|(_, why)| why).and_then(|job| {
            let failed = |status| match status {
                NOT_SUPPORTED => String::new(),
                _ => format!("the launcher says {}", self.library.describe(status)),
            };
            self.library.spawn(&job.attributes, &job.programs).map(|()| job).map_err(failed)
        });
        for (index, program) in programs.iter().enumerate() {
            for process in 0..program.processes {
                spawned.outcomes.push(match &result {
                    Err(why) if why.is_empty() => return cannot_spawn("this PMIx launcher"),
                    Err(why) => Err(why.clone()),
                    Ok(job) if process < job.programs[index].processes => Ok(()),
                    Ok(job) => Err(format!("the info key soft asks for {} processes", job.programs[index].processes)),
                });
            }
        }
        self.spawned += 1;
        Ok(spawned)
    }

    fn spawned_end(&mut self, _number: u32) -> Result<Option<String>, LaunchError> {
        Ok(None)
    }

    fn parent_port(&mut self) -> Result<Option<String>, LaunchError> {
        Ok(std::env::var(spawning::PARENT_PORT).ok())
    }

    fn names(&mut self) -> Option<&mut dyn Names> {
        Some(self)
    }

    fn notices(&mut self) -> Option<Notices> {
        self.stays().ok()?;
        // Without notices the processes find out by the silence of their peers.
        let records = self.library.notices(&self.own).ok()?;
        Some(Notices::new(records, notice))
    }

    fn observer(&mut self) -> Option<&mut dyn Observer> {
        None
    }
}

impl Names for Pmix {
    fn publish(&mut self, service: &str, port: &str) -> Result<(), LaunchError> {
        self.stays()?;
        self.library.publish(service, port).map_err(|status| refused(&self.library, "PMIx_Publish", status))
    }

    fn look_up(&mut self, service: &str) -> Result<Option<String>, LaunchError> {
        self.stays()?;
        self.library.look_up(service).map_err(|status| refused(&self.library, "PMIx_Lookup", status))
    }

    fn unpublish(&mut self, service: &str) -> Result<(), LaunchError> {
        self.stays()?;
        self.library.unpublish(service).map_err(|status| refused(&self.library, "PMIx_Unpublish", status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_own_library_is_preferred() {
        let maps = "7f00-7f10 r-xp 00000000 fe:00 12  /opt/prrte/lib/libpmix.so.2.13\n\
                    7f10-7f20 r--p 00010000 fe:00 12  /opt/prrte/lib/libpmix.so.2.13\n\
                    7f20-7f30 r--p 00000000 00:00 0 \n\
                    7f30-7f40 r-xp 00000000 fe:00 13  /opt/prrte/lib/libprrte.so.3\n";
        let expected = ["/opt/prrte/lib/libpmix.so.2.13", "/p/lib/libpmix.so.2"];
        assert_eq!(files(Some("/p"), maps)[..2], expected);
        assert_eq!(files(None, ""), [LIBRARY]);
    }

    #[test]
    fn each_record_has_its_meaning() {
        let record = |status: i32, rank: u32| [status.to_ne_bytes(), rank.to_ne_bytes()].concat();
        let meaning = |status, rank| notice(record(status, rank).try_into().expect("eight bytes"));
        assert_eq!(meaning(0, 0), None);
        assert_eq!([meaning(-61, 7), meaning(-8, 1)], [Some(Notice::ManagerGone), Some(Notice::Aborted)]);
        let killed = Notice::Failed { rank: 3, reason: "it was ended by a signal" };
        assert_eq!(meaning(-402, 3), Some(killed));
        let records = [record(-402, 3), record(0, 0), record(-402, 4)].concat();
        let notices = Notices::new(std::io::Cursor::new(records), notice);
        assert_eq!(notices.collect::<Vec<_>>(), [killed], "nothing comes after the last one");
    }

    #[test]
    fn lists_of_ranks_are_understood() {
        assert_eq!(ranks("4,0,1"), Some(vec![0, 1, 4]));
        assert_eq!(ranks("0"), Some(vec![0]));
        assert_eq!(ranks(""), None);
        assert_eq!(ranks("0,x"), None);
    }
}
