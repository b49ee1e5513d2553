use super::*;
use alloc::string::ToString as _;
use weft_core::meeting::LENGTH;
use weft_core::process::JobId;

/// The class of an error of a process in these tests.
const CLASS: ClassWord = 5;

fn at(job: u64, number: u32, node: u64) -> Member {
    Member { name: ProcessName { job: JobId(job), number }, job_size: 9, node, knows: u64::MAX - job }
}

#[test]
fn processes_of_one_node_and_several_jobs_share_a_segment() {
    let groups = Groups {
        own: vec![at(4, 1, 7), at(4, 0, 7), at(4, 2, 8), at(4, 3, 0), at(4, 4, 6)],
        theirs: vec![at(3, 5, 7), at(3, 6, 6), at(3, 7, 0), at(3, 8, 9)],
        share_max: 64,
    };
    let name = |job, number| ProcessName { job: JobId(job), number };
    let of = |job, number| groups.neighbours(name(job, number));
    let three = [name(3, 5), name(4, 0), name(4, 1)];
    assert!([of(4, 0), of(4, 1), of(3, 5)].iter().all(|names| names == &three));
    assert_eq!((of(4, 4), of(3, 6)), (vec![name(3, 6), name(4, 4)], vec![name(3, 6), name(4, 4)]));
    // Alone on its node, with its own job only, or without shared memory.
    assert!([of(4, 2), of(3, 8), of(4, 3), of(3, 7)].iter().all(Vec::is_empty));
    let many = |job| (0..33).map(|number| at(job, number, 7)).collect();
    let groups = Groups { own: many(1), theirs: many(2), share_max: 65 };
    assert!(groups.neighbours(name(1, 0)).is_empty());
    let two = |share_max| Groups { own: vec![at(4, 0, 7)], theirs: vec![at(3, 5, 7)], share_max };
    assert_eq!([2, 0].map(|share_max| two(share_max).neighbours(name(4, 0)).len()), [2, 0]);
}

/// What has come of a meeting at each process of both groups, and how often it has said its part.
type Outcome = Vec<(Result<(), Failure>, usize)>;

/// Lets two groups of these sizes meet, each rank 0 the leader, by hand. `fails`: the process of the first
/// group whose part fails when it is to be added. `shares`: memory can be shared.
fn meet(sizes: [usize; 2], fails: Option<usize>, shares: bool) -> Outcome {
    let members: Vec<Vec<Member>> = (0..2_usize)
        .map(|group| (0..sizes[group]).map(|number| at(group as u64 + 1, number as u32, 3)).collect())
        .collect();
    let mut meetings: Vec<Meeting> = Vec::new();
    let mut due: Vec<Due> = Vec::new();
    for (group, members) in members.iter().enumerate() {
        for (rank, member) in members.iter().enumerate() {
            let mut meeting = Meeting::new(member.name, sizes[group], rank == 0, 64);
            due.push(meeting.begin(Ok(*member)));
            meetings.push(meeting);
        }
    }
    let range = |group: usize| if group == 0 { 0..sizes[0] } else { sizes[0]..sizes[0] + sizes[1] };
    let mut told = vec![0; due.len()];
    for _ in 0..100 {
        for group in 0..2 {
            // All of a group have the same due, but for what only the leader does.
            if range(group).all(|one| matches!(due[one], Due::Gather(_))) {
                let words: Vec<i64> = range(group)
                    .flat_map(|one| if let Due::Gather(words) = &due[one] { words.clone() } else { Vec::new() })
                    .collect();
                range(group).for_each(|one| due[one] = meetings[one].gathered(Ok(words.clone())));
            }
            if range(group).all(|one| matches!(due[one], Due::HandOn(_)))
                && let Due::HandOn(words) = due[range(group).start].clone()
            {
                range(group).for_each(|one| due[one] = meetings[one].handed_on(Ok(words.clone())));
            }
        }
        let leaders = [0, sizes[0]];
        let said = leaders.map(|one| match &due[one] {
            Due::Swap(words) => Some(words.clone()),
            Due::SayFailed => Some(Vec::new()),
            _ => None,
        });
        if let [Some(first), Some(second)] = said {
            for (one, heard) in leaders.into_iter().zip([second, first]) {
                due[one] = if due[one] == Due::SayFailed {
                    meetings[one].said()
                } else {
                    meetings[one].swapped(Ok(heard), 77)
                };
            }
        }
        for one in 0..due.len() {
            let (group, rank) = if one < sizes[0] { (0, one) } else { (1, one - sizes[0]) };
            let meeting = &mut meetings[one];
            due[one] = match due[one].clone() {
                Due::Tell => {
                    told[one] += 1;
                    let needs = meeting.needs(|_| false);
                    assert_eq!(
                        needs.creates.is_some(),
                        meeting.neighbours().first() == Some(&members[group][rank].name)
                    );
                    let relation = Relation { first: 100, half: [group as u8; LENGTH] };
                    meeting.told(Ok(Told {
                        is_crowded: false,
                        knows_all: false,
                        segment: needs.creates.map(|_| [1, 2]),
                        relations: vec![relation],
                        // Longer than what one collective takes.
                        card: "card ".repeat(300) + &rank.to_string(),
                    }))
                }
                Due::Add if fails == Some(one) => meeting.added(Err(CLASS)),
                Due::Add => {
                    let newcomers = meeting.newcomers(|_| false).expect("sound");
                    assert_eq!(newcomers.len(), sizes[1 - group]);
                    for (number, newcomer) in newcomers.iter().enumerate() {
                        assert!(newcomer.told.card.ends_with(&number.to_string()));
                        assert_eq!((newcomer.own_index, newcomer.half[0]), (100 + rank as u32, 1 - group as u8));
                    }
                    let shared = meeting.segment().is_none() || shares;
                    meeting.added(Ok(shared))
                }
                Due::Settle { .. } => meeting.settled(),
                due => due,
            };
        }
    }
    let over = |due| if let Due::Over(verdict) = due { verdict } else { panic!("{due:?}") };
    due.into_iter().map(over).zip(told).collect()
}

#[test]
fn groups_of_all_sizes_meet() {
    for sizes in [[1, 1], [1, 5], [4, 1], [3, 7]] {
        assert!(meet(sizes, None, true).iter().all(|one| *one == (Ok(()), 1)), "{sizes:?}");
        // Without memory that can be shared the cards are told twice.
        assert!(meet(sizes, None, false).iter().all(|one| *one == (Ok(()), 2)), "{sizes:?}");
    }
}

#[test]
fn one_that_fails_makes_all_fail() {
    let outcome = meet([3, 2], Some(1), true);
    let failures = outcome.iter().map(|(verdict, _)| verdict.expect_err("it fails"));
    let group = Failure::Group(CLASS);
    assert_eq!(failures.collect::<Vec<_>>(), [group, Failure::Own, group, Failure::Others, Failure::Others]);
}

#[test]
fn a_leader_without_a_contact_tells_its_group_its_reason() {
    let mut first = Meeting::new(at(1, 0, 0).name, 2, true, 64);
    let mut second = Meeting::new(at(1, 1, 0).name, 2, false, 64);
    let [Due::Gather(one), Due::Gather(other)] = [first.begin(Ok(at(1, 0, 0))), second.begin(Ok(at(1, 1, 0)))] else {
        panic!("each gathers")
    };
    let gathered = [one, other].concat();
    let due = [first.gathered(Ok(gathered.clone())), second.gathered(Ok(gathered))];
    assert!(matches!(due, [Due::Swap(_), Due::HandOn(_)]));
    let Due::HandOn(words) = first.swapped(Err(CLASS), 0) else { panic!("it hands on") };
    let over = [first.handed_on(Ok(words.clone())), second.handed_on(Ok(words))];
    assert_eq!(over, [Due::Over(Err(Failure::Own)), Due::Over(Err(Failure::NotMet(CLASS)))]);
}

#[test]
fn a_process_in_both_groups_is_noticed() {
    let mut meeting = Meeting::new(at(1, 0, 0).name, 1, true, 64);
    let Due::Gather(words) = meeting.begin(Ok(at(1, 0, 0))) else { panic!("it gathers") };
    assert!(matches!(meeting.gathered(Ok(words)), Due::Swap(_)));
    let theirs = [at(2, 0, 0), at(1, 0, 0)].iter().flat_map(|member| member.to_words()).collect();
    assert_eq!(meeting.swapped(Ok(theirs), 7), Due::Over(Err(Failure::Common)));
}

/// Expect: whoever leaves tells those who may be in a later collective, of its group or of both groups.
#[test]
fn whoever_leaves_a_meeting_tells_those_who_may_wait() {
    let begun = || {
        let mut meeting = Meeting::new(at(1, 1, 0).name, 2, false, 64);
        let Due::Gather(words) = meeting.begin(Ok(at(1, 1, 0))) else { panic!("it gathers") };
        (meeting, words)
    };
    let (mut meeting, _) = begun();
    assert_eq!(meeting.gathered(Err(CLASS)), Due::GiveUp { collectives: 3, both: false });
    assert_eq!(meeting.given_up(), Due::Over(Err(Failure::Own)));
    // Nobody of this process's group knows the other group before the names are handed on.
    let (mut meeting, words) = begun();
    assert!(matches!(meeting.gathered(Ok([words.clone(), words].concat())), Due::HandOn(_)));
    assert_eq!(meeting.handed_on(Err(CLASS)), Due::GiveUp { collectives: 2, both: false });
    // Groups of one job go to the last round. The other group may hear all of it, when this one does not.
    let mut meeting = Meeting::new(at(1, 0, 0).name, 1, true, 64);
    let Due::Gather(words) = meeting.begin(Ok(at(1, 0, 0))) else { panic!("it gathers") };
    assert!(matches!(meeting.gathered(Ok(words)), Due::Swap(_)));
    let Due::Gather(words) = meeting.swapped(Ok(at(1, 5, 0).to_words().to_vec()), 9) else { panic!("it gathers") };
    assert!(matches!(meeting.gathered(Ok(words)), Due::Swap(_)));
    assert_eq!(meeting.swapped(Err(CLASS), 0), Due::GiveUp { collectives: 0, both: true });
    assert_eq!(meeting.given_up(), Due::Settle { keeps: false });
    assert_eq!(meeting.settled(), Due::Over(Err(Failure::Own)));
    // The name in common is still that of the contact.
    assert_eq!(meeting.common_name(), [&b"meeting "[..], &9_u64.to_le_bytes()].concat());
}
