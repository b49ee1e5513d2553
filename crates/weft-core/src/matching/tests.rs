//! Tests of matching: random schedules against two plain lists, and the stories of MPI-5.0 §3.5.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// The naive model: lists in order, searched from the front.
#[derive(Default)]
struct Lists {
    posted: Vec<(u32, Option<u32>, Option<i32>, u64)>,
    unexpected: Vec<(Envelope, u64)>,
}

fn fits(envelope: &Envelope, context: u32, source: Option<u32>, tag: Option<i32>) -> bool {
    envelope.context == context
        && source.is_none_or(|source| source == envelope.source)
        && tag.is_none_or(|tag| tag == envelope.tag)
}

impl Lists {
    fn find(&self, context: u32, source: Option<u32>, tag: Option<i32>) -> Option<usize> {
        self.unexpected.iter().position(|(envelope, _)| fits(envelope, context, source, tag))
    }

    fn post(&mut self, context: u32, source: Option<u32>, tag: Option<i32>, token: u64) -> Option<(Envelope, u64)> {
        let found = self.find(context, source, tag).map(|at| self.unexpected.remove(at));
        if found.is_none() {
            self.posted.push((context, source, tag, token));
        }
        found
    }

    fn arrive(&mut self, envelope: Envelope, token: u64) -> Option<u64> {
        let at = self.posted.iter().position(|&(context, source, tag, _)| fits(&envelope, context, source, tag));
        if at.is_none() {
            self.unexpected.push((envelope, token));
        }
        at.map(|at| self.posted.remove(at).3)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post(u32, Option<u32>, Option<i32>),
    /// Many receives or messages, so that queues grow long.
    PostMany(u32, Option<u32>, Option<i32>, u32),
    Arrive(u32, u32, i32),
    ArriveMany(u32, u32, i32, u32),
    Probe(u32, Option<u32>, Option<i32>),
    Extract(u32, Option<u32>, Option<i32>),
    /// (context, token modulo)
    Cancel(u32, u64),
    Retract(u32, u64),
    Touch(u32, u64),
    Drop(u32),
}

fn steps() -> impl Strategy<Value = Step> {
    let context = || 0u32..3;
    // Rare sources and tags make searches go deep; their bits collide when a mask is wrong.
    let source = || prop_oneof![4 => 0u32..4, 1 => Just(u32::MAX), 1 => Just(1 << 31)];
    let tag = || prop_oneof![4 => 0i32..4, 1 => Just(i32::MAX), 1 => Just(-1), 1 => Just(i32::MIN)];
    let any_source = move || prop_oneof![2 => source().prop_map(Some), 1 => Just(None)];
    let any_tag = move || prop_oneof![2 => tag().prop_map(Some), 1 => Just(None)];
    prop_oneof![
        8 => (context(), any_source(), any_tag()).prop_map(|(c, s, t)| Step::Post(c, s, t)),
        2 => (context(), any_source(), any_tag(), 1u32..40).prop_map(|(c, s, t, n)| Step::PostMany(c, s, t, n)),
        8 => (context(), source(), tag()).prop_map(|(c, s, t)| Step::Arrive(c, s, t)),
        2 => (context(), source(), tag(), 1u32..40).prop_map(|(c, s, t, n)| Step::ArriveMany(c, s, t, n)),
        3 => (context(), any_source(), any_tag()).prop_map(|(c, s, t)| Step::Probe(c, s, t)),
        3 => (context(), any_source(), any_tag()).prop_map(|(c, s, t)| Step::Extract(c, s, t)),
        2 => (context(), 1u64..50).prop_map(|(c, by)| Step::Cancel(c, by)),
        2 => (context(), 1u64..50).prop_map(|(c, by)| Step::Retract(c, by)),
        1 => (context(), 1u64..50).prop_map(|(c, by)| Step::Touch(c, by)),
        1 => context().prop_map(Step::Drop),
    ]
}

struct Pair {
    matcher: Matcher<u64, u64>,
    lists: Lists,
    tokens: u64,
}

impl Pair {
    fn post(&mut self, context: u32, source: Option<u32>, tag: Option<i32>) {
        self.tokens += 1;
        let expected = self.lists.post(context, source, tag, self.tokens);
        assert_eq!(self.matcher.post(context, source, tag, self.tokens), expected);
    }

    fn arrive(&mut self, envelope: Envelope) {
        self.tokens += 1;
        let (token, mut made) = (self.tokens, false);
        let expected = self.lists.arrive(envelope, token);
        let make = || {
            made = true;
            Some(token)
        };
        assert_eq!(self.matcher.arrive(envelope, make), expected);
        assert_eq!(made, expected.is_none(), "a message is made only when it is queued");
    }

    fn step(&mut self, step: Step) {
        let Pair { matcher, lists, .. } = self;
        match step {
            Step::Post(context, source, tag) => self.post(context, source, tag),
            Step::PostMany(context, source, tag, times) => (0..times).for_each(|_| self.post(context, source, tag)),
            Step::Arrive(context, source, tag) => self.arrive(Envelope { context, source, tag }),
            Step::ArriveMany(context, source, tag, times) => {
                (0..times).for_each(|_| self.arrive(Envelope { context, source, tag }));
            }
            Step::Probe(context, source, tag) => {
                let expected = lists.find(context, source, tag).map(|at| lists.unexpected[at]);
                assert_eq!(matcher.probe(context, source, tag).map(|(found, token)| (found, *token)), expected);
            }
            Step::Extract(context, source, tag) => {
                let expected = lists.find(context, source, tag).map(|at| lists.unexpected.remove(at));
                assert_eq!(matcher.extract(context, source, tag), expected);
            }
            Step::Cancel(context, by) => {
                let at = lists.posted.iter().position(|posted| posted.0 == context && posted.3 % by == 0);
                let expected = at.map(|at| lists.posted.remove(at).3);
                assert_eq!(matcher.cancel(context, |token| token % by == 0), expected);
            }
            Step::Retract(context, by) => {
                let chosen = |(envelope, token): &(Envelope, u64)| envelope.context == context && token % by == 0;
                let at = lists.unexpected.iter().position(chosen);
                let expected = at.map(|at| lists.unexpected.remove(at));
                assert_eq!(matcher.retract(context, |_, token| token % by == 0), expected);
            }
            Step::Touch(context, by) => {
                let chosen = |(envelope, token): &(Envelope, u64)| envelope.context == context && token % by == 0;
                let at = lists.unexpected.iter().rposition(chosen);
                let found = matcher.unexpected_mut(context, |found, token| found.context == context && token % by == 0);
                assert_eq!(found.as_deref().copied(), at.map(|at| lists.unexpected[at].1));
                if let (Some(found), Some(at)) = (found, at) {
                    // The message has grown: it has another token, which the receive that takes it sees.
                    *found += 1_000_000_000;
                    lists.unexpected[at].1 = *found;
                }
            }
            Step::Drop(context) => {
                let leftovers = matcher.drop_context(context);
                let posted: Vec<u64> = lists.posted.iter().filter(|posted| posted.0 == context).map(|p| p.3).collect();
                let unexpected = lists.unexpected.iter().filter(|(envelope, _)| envelope.context == context);
                assert_eq!(leftovers.posted, posted);
                assert_eq!(leftovers.unexpected, unexpected.copied().collect::<Vec<_>>());
                lists.posted.retain(|posted| posted.0 != context);
                lists.unexpected.retain(|(envelope, _)| envelope.context != context);
                assert_eq!(matcher.counts_in(context), (0, 0));
            }
        }
        assert_eq!(self.matcher.posted_count(), self.lists.posted.len());
        assert_eq!(self.matcher.unexpected_count(), self.lists.unexpected.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_two_lists(steps in prop::collection::vec(steps(), 1..300)) {
        let mut pair = Pair { matcher: Matcher::new(), lists: Lists::default(), tokens: 0 };
        steps.into_iter().for_each(|step| pair.step(step));
        (0..3).for_each(|context| pair.step(Step::Drop(context)));
    }
}

/// Expect: contexts come and go, and the kept memory is no more than the contexts need that exist at one
/// time.
#[test]
fn contexts_that_are_gone_leave_nothing_behind() {
    let mut matcher: Matcher<u64, u64> = Matcher::new();
    for context in 0..1000 {
        matcher.post(context, Some(1), Some(2), 3);
        matcher.release_context(context);
        assert_eq!(matcher.contexts().collect::<Vec<_>>(), [context], "a receive is posted in it");
        assert_eq!(matcher.arrive(Envelope { context, source: 1, tag: 2 }, || None), Some(3));
        matcher.arrive(Envelope { context, source: 1, tag: 2 }, || Some(4));
        matcher.release_context(context);
        assert_eq!(matcher.counts_in(context), (0, 1), "a message is kept in it");
        assert_eq!(matcher.extract(context, None, None).map(|(_, message)| message), Some(4));
        matcher.release_context(context);
        assert_eq!(matcher.contexts().count(), 0);
    }
    assert_eq!((matcher.contexts.len(), matcher.free.len()), (1, 1));
}

fn from(source: u32, tag: i32) -> Envelope {
    Envelope { context: 7, source, tag }
}

/// Two receives that both match: the first posted takes the first message (MPI-5.0 §3.5, order).
#[test]
fn messages_do_not_overtake() {
    let mut matcher = Matcher::new();
    assert_eq!(matcher.post(7, None, Some(5), 'a'), None);
    assert_eq!(matcher.post(7, Some(1), None, 'b'), None);
    assert_eq!(matcher.post(7, Some(1), Some(5), 'c'), None);
    assert_eq!(matcher.arrive(from(1, 5), || Some("first")), Some('a'));
    assert_eq!(matcher.arrive(from(1, 5), || Some("second")), Some('b'));
    assert_eq!(matcher.arrive(from(2, 5), || None), None, "it is not kept");
    assert_eq!(matcher.arrive(from(2, 5), || Some("other")), None);
    assert_eq!(matcher.arrive(from(1, 5), || Some("third")), Some('c'));
    assert_eq!(matcher.post(7, None, None, 'd'), Some((from(2, 5), "other")));
}

/// Contexts never see each other's traffic.
#[test]
fn contexts_are_apart() {
    let mut matcher = Matcher::new();
    assert_eq!(matcher.post(1, None, None, 'a'), None);
    assert_eq!(matcher.arrive(Envelope { context: 2, source: 0, tag: 0 }, || Some('m')), None);
    assert_eq!(matcher.probe(1, None, None), None);
    assert_eq!(matcher.counts_in(1), (1, 0));
    assert_eq!(matcher.counts_in(2), (0, 1));
    assert_eq!(matcher.counts_in(3), (0, 0));
}

/// 20 000 receives and messages in the worst order: in a plain list each search would pass all the others.
#[test]
fn long_queues_are_indexed() {
    let mut matcher = Matcher::new();
    // Twice: the second time on the memory that the first one gave back.
    long_queues(&mut matcher);
    long_queues(&mut matcher);
}

fn long_queues(matcher: &mut Matcher<u32, u32>) {
    const LONG: u32 = 20_000;
    for index in 0..LONG {
        assert_eq!(matcher.post(7, Some(index), Some(1), index), None);
    }
    for index in (0..LONG).rev() {
        assert_eq!(matcher.arrive(from(index, 1), || Some(index)), Some(index));
        // A list again as soon as it is empty.
        assert_eq!(matcher.queues(7).posted.is_indexed(), index > 0);
    }
    for index in 0..LONG {
        assert_eq!(matcher.arrive(from(1, index as i32), || Some(index)), None);
    }
    assert!(!matcher.queues(7).unexpected.is_indexed());
    for index in (0..LONG).rev() {
        let tag = index as i32;
        assert_eq!(matcher.probe(7, None, Some(tag)), Some((from(1, tag), &index)));
        assert!(matcher.queues(7).unexpected.is_indexed());
        assert_eq!(matcher.post(7, None, Some(tag), index), Some((from(1, tag), index)));
    }
    assert_eq!((matcher.posted_count(), matcher.unexpected_count()), (0, 0));
}

#[test]
fn a_receive_stands_behind_those_that_could_take_its_message() {
    let mut matcher: Matcher<usize, ()> = Matcher::new();
    let mut post = |name, source, tag, fine: &[usize], limit| {
        assert!(matcher.post(8, source, tag, name).is_none());
        matcher.stands_behind(8, source, tag, &name, limit, |other| fine.contains(other))
    };
    assert!(post(1, Some(0), Some(5), &[], 10));
    assert!(post(2, Some(1), None, &[], 10));
    assert!(!post(3, None, Some(6), &[], 10), "the second could take its message");
    assert!(!post(4, Some(0), Some(5), &[], 10), "and the first that of the fourth");
    assert!(post(5, Some(0), Some(5), &[4], 10), "what goes for the fourth goes for the fifth");
    assert!(!post(6, Some(0), None, &[1, 4, 5], 10), "the third could take its message");
    assert!(post(7, Some(0), None, &[1, 3, 4, 5, 6], 10));
    assert!(post(8, None, None, &[1, 2, 3, 4, 5, 6, 7], 10));
    assert!(!post(9, None, Some(9), &[1, 2, 3, 4, 5, 6, 7], 10));
    assert!(post(10, Some(3), Some(3), &[8], 10), "only the eighth could take its message");
    assert!(!post(11, Some(1), Some(4), &[2, 8], 2), "too far behind");
    assert!(!matcher.stands_behind(8, None, None, &3, 10, |_| true), "it is not the newest");
    assert!(!matcher.stands_behind(9, None, None, &3, 10, |_| true), "there is none");
}
