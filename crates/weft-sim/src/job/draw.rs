//! Programs by chance: each part is drawn from the seed independently.

mod machine;

use super::program::{
    Block, Collective, Comm, Death, How, Kind, Message, Pace, Part, Program, Role, Stop, WildReceive,
};
use super::shape::{BYTES_MAX, Shape};
use machine::{add_streams, believe, believe_in_quick_kernel, connect, machine, multicast, shrink_paths};
use weft_core::time::Duration;
use weft_engine::request::Mode;
use weft_random::{Random, mix};

/// Lengths at which the behaviour changes; drawn lengths lie near them.
const EDGES: [u64; 9] = [0, 64, 1 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 512 << 10];
/// The longest block of a collective, bytes: a process may have one block for each process, with gaps.
const COLLECTIVE_BYTES_MAX: u64 = 256 << 10;
/// The sum of this number and the sender's rank is a tag that no other process uses.
const OWN_TAGS: i32 = 1000;

const KINDS: [Kind; 17] = [
    Kind::Barrier,
    Kind::Bcast,
    Kind::Gather,
    Kind::Gatherv,
    Kind::Scatter,
    Kind::Scatterv,
    Kind::Allgather,
    Kind::Allgatherv,
    Kind::Alltoall,
    Kind::Alltoallv,
    Kind::Alltoallw,
    Kind::Reduce,
    Kind::Allreduce,
    Kind::ReduceScatter,
    Kind::ReduceScatterBlock,
    Kind::Scan,
    Kind::Exscan,
];

/// Programs over carriers that deliver every packet once and in order; cases per million.
const CONNECTED: u32 = 250_000;
/// Programs over other carriers whose broadcasts are multicast; cases per million.
const MULTICAST: u32 = 300_000;

/// Programs over other carriers whose paths carry smaller packets for a time, or from then on.
const PATHS_CHANGE: u32 = 200_000;

/// Programs whose processes believe other costs than the built-in ones.
const OTHER_COSTS: u32 = 250_000;
/// Programs on machines whose kernel copies more quickly than rings do; cases per million.
const QUICK_KERNEL: u32 = 150_000;
/// Programs over other carriers that have carriers beside them which only write; cases per million.
const STREAMS: u32 = 300_000;
/// Programs in which a process does nothing for more than a second; cases per million. The second figure is
/// for programs with carriers beside others that only write: their receivers wait a second for data.
const STOPS: [u32; 2] = [100_000, 500_000];
/// Programs with windows.
const WINDOWS: u32 = 300_000;

/// Limits on what a draw may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct DrawOptions {
    /// The number of processes, if it is fixed.
    pub ranks: Option<usize>,
}

/// The program of a seed.
pub(super) fn program(seed: u64, draw_options: DrawOptions) -> Program {
    let mut random = Random::new(mix(seed ^ 0x0070_726f_6772_616d));
    let dies = random.chance(80_000);
    let large = random.chance(250_000);
    let mut machine = machine(&mut random, dies, large, draw_options);
    // These are drawn from a generator of their own: programs over other carriers are the same as before
    // ordered carriers existed.
    let mut carriers = Random::new(mix(seed ^ 0x6f72_6465_7265_6421));
    let breaks = if carriers.chance(CONNECTED) {
        let breaks = dies && carriers.chance(500_000);
        connect(&mut machine, &mut carriers, breaks);
        breaks
    } else {
        false
    };
    // Drawn from a generator of its own, for the same reason.
    let mut groups = Random::new(mix(seed ^ 0x6d75_6c74_6963_6173));
    if groups.chance(MULTICAST) && machine.wires.ordered.is_none() && !machine.sealed && !machine.is_alone() {
        machine.has_udp = true;
        machine.wires.multicast = Some(multicast(&mut groups));
    }
    // Drawn from a generator of its own.
    let mut paths = Random::new(mix(seed ^ 0x7061_7468_5f6d_7475));
    if paths.chance(PATHS_CHANGE) && machine.wires.ordered.is_none() {
        shrink_paths(&mut machine, &mut paths);
    }
    // Drawn from a generator of its own.
    let mut costs = Random::new(mix(seed ^ 0x636f_7374_735f_7361));
    if costs.chance(OTHER_COSTS) {
        believe(&mut machine, &mut costs);
    }
    // Drawn from a generator of its own.
    let mut kernel = Random::new(mix(seed ^ 0x6b65_726e_656c_2121));
    if kernel.chance(QUICK_KERNEL) {
        believe_in_quick_kernel(&mut machine, &mut kernel);
    }
    // Drawn from a generator of its own.
    let mut streams = Random::new(mix(seed ^ 0x7374_7265_616d_7321));
    if streams.chance(STREAMS) && machine.wires.ordered.is_none() && !machine.sealed && !machine.is_alone() {
        add_streams(&mut machine, &mut streams);
    }
    let ranks = machine.ranks();
    // Drawn from a generator of its own.
    let mut stops = Random::new(mix(seed ^ 0x7374_6f70_7065_6421));
    let writes_beside = machine.wires.ordered.is_some_and(|ordered| ordered.beside);
    let stop = stops.chance(STOPS[usize::from(writes_beside)]).then(|| {
        machine.peer_timeout = machine.peer_timeout.max(Duration::from_secs(4));
        let (rank, at) = (stops.below(ranks as u64) as usize, stops.below(2_000_000));
        Stop { rank, at, lasts: stops.between(1_000_000_000, 1_500_000_000) }
    });
    let like_the_library = random.chance(100_000);
    let pace = Pace {
        // Where a spin takes as long as it does in the library, steps take as long as well.
        step_max: if like_the_library { 3000 } else { random.pick(&[50, 500, 3000]) },
        spins_max: random.pick(&[0, 2, 10]),
        spins_like_the_library: like_the_library,
        helps: random.chance(600_000),
        pause: random.chance(100_000).then_some((100_000_000, 10_000_000)),
        stop,
    };
    let death =
        (dies && !breaks).then(|| Death { rank: random.below(ranks as u64) as usize, at: random.below(2_000_000) });
    let mut draw = Draw {
        left: random.pick(&[20_000, 100_000, 100_000, 400_000, 3_000_000]),
        eager_limit: machine.eager_limit,
        packet_size: machine.wires.packet_size as u64,
        strided: random.pick(&[0, 0, 200_000, 700_000]),
        large,
        blocking: random.pick(&[300_000, 300_000, 900_000]),
        compute_max: random.pick(&[0, 2_000, 50_000, 1_000_000]),
        computes: random.pick(&[200_000, 200_000, 700_000]),
        with_death: dies,
        broadcasts: machine.wires.multicast.map(|_| groups),
        next: 1,
        random,
    };
    let count = draw.random.pick(&[1, 1, 1, 1, 2, 2, 3]);
    let mut roles: Vec<Role> = (0..count).map(|_| draw.role(ranks)).collect();
    // Drawn from a generator of its own.
    let mut windows = Random::new(mix(seed ^ 0x7769_6e64_6f77_7321));
    if windows.chance(WINDOWS) {
        roles.iter_mut().enumerate().for_each(|(number, role)| add_windows(&mut windows, number, role, dies));
    }
    Program { seed, machine, pace, death, roles }
}

/// Puts one window or two among the blocks of a role.
fn add_windows(random: &mut Random, number: usize, role: &mut Role, dies: bool) {
    for at in 0..random.between(1, 2) as u32 {
        let comm = random.below(role.comms.len() as u64) as usize;
        // Barriers have names that differ between all roles.
        let id = 8 * number as u32 + at;
        let block = super::windows::draw(random, id, comm, role.comms[comm].members.len(), dies);
        let index = random.below(role.blocks.len() as u64 + 1) as usize;
        role.blocks.insert(index, Block::Window(block));
    }
}

struct Draw {
    random: Random,
    /// Bytes that further messages may have.
    left: u64,
    eager_limit: u64,
    packet_size: u64,
    strided: u32,
    /// Says whether many messages are so large that they are copied once, or granted in pieces.
    large: bool,
    /// The share of sends and receives that block; cases per million.
    blocking: u32,
    compute_max: u64,
    /// The share of calls before which the program computes; cases per million.
    computes: u32,
    with_death: bool,
    /// The generator for broadcasts, if many collectives are broadcasts.
    broadcasts: Option<Random>,
    next: u32,
}

impl Draw {
    fn id(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn bytes(&mut self) -> u64 {
        let bytes = if self.large && self.random.chance(500_000) {
            let longest = self.random.pick(&[100 << 10, 100 << 10, 300 << 10, 1200 << 10]);
            self.random.between(16 << 10, longest)
        } else {
            self.bytes_near_an_edge()
        };
        let bytes = if bytes > self.left { self.random.below(100) } else { bytes.min(BYTES_MAX) };
        self.left = self.left.saturating_sub(bytes);
        bytes
    }

    fn bytes_near_an_edge(&mut self) -> u64 {
        let edge = match self.random.below(8) {
            0..=2 => self.random.below(200),
            3 => self.eager_limit,
            4 => self.packet_size,
            5 => self.random.below(20_000),
            _ => self.random.pick(&EDGES),
        };
        let near = match self.random.below(3) {
            0 => edge,
            1 => edge.saturating_sub(self.random.below(70)),
            _ => edge + self.random.below(70),
        };
        if self.random.chance(4_000) { 1 << 20 } else { near }
    }

    fn compute(&mut self) -> u64 {
        if self.compute_max > 0 && self.random.chance(self.computes) { self.random.below(self.compute_max) } else { 0 }
    }

    fn role(&mut self, ranks: usize) -> Role {
        let mut comms = vec![Comm { members: (0..ranks).collect() }];
        for _ in 0..self.random.below(3) {
            let mut members: Vec<usize> = (0..ranks).collect();
            while members.len() > 2 && self.random.chance(500_000) {
                members.remove(self.random.below(members.len() as u64) as usize);
            }
            let turn = self.random.below(members.len() as u64) as usize;
            members.rotate_left(turn);
            comms.push(Comm { members });
        }
        let blocks = self.random.between(1, 4);
        let blocks = (0..blocks).map(|at| self.block(&comms, at as u32)).collect();
        Role { comms, blocks }
    }

    fn block(&mut self, comms: &[Comm], at: u32) -> Block {
        if self.with_death {
            return if self.random.chance(800_000) { self.ordered(comms) } else { self.persistent(comms) };
        }
        if self.broadcasts.as_mut().is_some_and(|random| random.chance(600_000)) {
            return self.collectives(comms);
        }
        match self.random.below(10) {
            0..=3 => self.ordered(comms),
            4..=5 => self.wild(comms, at),
            6 => self.persistent(comms),
            7..=8 => self.collectives(comms),
            _ if self.random.chance(300_000) => self.flood(comms),
            _ => {
                let mut message = self.message(comms, None);
                // The message that tells about it goes to another process.
                if message.from == message.to {
                    message.to = (message.from + 1) % comms[message.comm].members.len();
                }
                (message.any_source, message.any_tag, message.room) = (false, false, message.bytes);
                Block::Cancelled(message)
            }
        }
    }

    fn message(&mut self, comms: &[Comm], comm: Option<usize>) -> Message {
        let comm = comm.unwrap_or_else(|| self.random.below(comms.len() as u64) as usize);
        let size = comms[comm].members.len() as u64;
        let from = self.random.below(size) as usize;
        let to = self.random.below(size) as usize;
        let bytes = self.bytes();
        let (any_source, any_tag) = match self.random.below(5) {
            0 if !self.with_death => (true, false),
            1 => (false, true),
            _ => (false, false),
        };
        let room = match self.random.below(12) {
            0 => self.random.below(bytes + 1),
            1..=3 => bytes + self.random.below(1000),
            _ => bytes,
        };
        let how = |random: &mut Random, blocking: u32| {
            if random.chance(blocking) { How::Blocking } else { How::Later(random.below(8) as u8) }
        };
        Message {
            id: self.id(),
            comm,
            from,
            to,
            tag: if any_source { OWN_TAGS + from as i32 } else { self.random.below(3) as i32 },
            bytes,
            mode: self.random.pick(&[Mode::Standard, Mode::Standard, Mode::Standard, Mode::Synchronous]),
            send: how(&mut self.random, self.blocking),
            receive: match self.random.below(10) {
                0 => How::Probed,
                1 => How::MatchedProbe,
                _ => how(&mut self.random, self.blocking),
            },
            send_shape: Shape::draw(&mut self.random, bytes, self.strided),
            receive_shape: Shape::draw(&mut self.random, room, self.strided),
            room,
            any_source,
            any_tag,
            receive_first: self.random.chance(400_000),
            compute: (self.compute(), self.compute()),
        }
    }

    fn ordered(&mut self, comms: &[Comm]) -> Block {
        let count = self.random.between(1, 14);
        let one = self.random.chance(300_000).then(|| self.random.below(comms.len() as u64) as usize);
        Block::Ordered((0..count).map(|_| self.message(comms, one)).collect())
    }

    fn persistent(&mut self, comms: &[Comm]) -> Block {
        let comm = Some(self.random.below(comms.len() as u64) as usize);
        let count = self.random.between(1, 4);
        let messages = (0..count).map(|_| self.message(comms, comm)).collect();
        Block::Persistent { messages, rounds: self.random.between(1, 3) as u8 }
    }

    /// A block that sends one receiver more than the credit of one sender while the receiver does something
    /// else.
    fn flood(&mut self, comms: &[Comm]) -> Block {
        let bytes = self.random.between(10_000, 60_000);
        let count = (2 << 20) / bytes.min(self.eager_limit.max(10_000));
        let size = comms[0].members.len() as u64;
        let (from, to) = (self.random.below(size) as usize, self.random.below(size) as usize);
        let mut messages: Vec<Message> = (0..count).map(|_| self.message(comms, Some(0))).collect();
        for message in &mut messages {
            let bytes = bytes.min(self.eager_limit.max(100));
            (message.from, message.to, message.bytes, message.room) = (from, to, bytes, bytes);
            (message.any_source, message.receive_first, message.compute) = (false, false, (0, 0));
            message.tag = 0;
            (message.send_shape, message.receive_shape) = (Shape::Plain, Shape::Plain);
            message.send = How::Later(200);
        }
        messages[0].compute = (0, self.random.between(100_000, 3_000_000));
        Block::Ordered(messages)
    }

    fn wild(&mut self, comms: &[Comm], at: u32) -> Block {
        let comm = self.random.below(comms.len() as u64) as usize;
        let size = comms[comm].members.len() as u64;
        let count = self.random.between(1, 16);
        let mut messages: Vec<Message> = (0..count).map(|_| self.message(comms, Some(comm))).collect();
        // Many messages for few processes are hard to match.
        let narrow = self.random.chance(500_000).then(|| self.random.below(size) as usize);
        let tags = self.random.between(1, 3);
        for message in &mut messages {
            message.to = narrow.unwrap_or(message.to);
            message.tag = self.random.below(tags) as i32;
        }
        let longest = messages.iter().map(|message| message.bytes).max().unwrap_or(0);
        let mut receives = Vec::new();
        for message in &messages {
            if self.random.chance(200_000) {
                continue;
            }
            let room = if self.random.chance(100_000) { self.random.below(longest + 1) } else { longest };
            receives.push(WildReceive {
                id: self.id(),
                at: message.to,
                source: self.random.chance(500_000).then_some(message.from),
                tag: self.random.chance(600_000).then_some(message.tag),
                room,
                shape: Shape::draw(&mut self.random, room, self.strided),
                after: self.random.below(6) as usize,
            });
        }
        Block::Wild { id: at, comm, messages, receives, matched: self.random.chance(500_000) }
    }

    fn collectives(&mut self, comms: &[Comm]) -> Block {
        let comm = self.random.below(comms.len() as u64) as usize;
        let size = comms[comm].members.len() as u64;
        let count = self.random.between(1, 4);
        // Parts are drawn from a generator of their own: programs are the same as before parts existed.
        let mut parts = Random::new(mix(u64::from(self.next) ^ self.left << 20));
        let in_parts = parts.chance(300_000);
        let list = (0..count).map(|_| {
            let bytes = self.bytes().min(COLLECTIVE_BYTES_MAX);
            let mut collective = Collective {
                id: self.id(),
                kind: self.random.pick(&KINDS),
                root: self.random.below(size) as usize,
                count: bytes / 8 / self.random.pick(&[1, size]),
                algorithm: self.random.below(16) as u8,
                strided: self.random.chance(self.strided),
                part: None,
            };
            if self.broadcasts.as_mut().is_some_and(|random| random.chance(700_000)) {
                collective.kind = Kind::Bcast;
            }
            if in_parts {
                let part =
                    Part { mask: 1 + parts.below((1 << size.min(20)) - 1) as u32, turn: parts.below(size) as u8 };
                collective.root %= part.ranks().len();
                collective.part = Some(part);
            }
            collective
        });
        Block::Collectives { comm, list: list.collect(), together: self.random.chance(400_000) }
    }
}
