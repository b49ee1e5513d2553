//! Expect: output of ranks arrives whole, and input arrives where it should.

mod common;

use common::{TWO_HOSTS, run, run_with_input};

#[test]
fn ranks_meet_and_their_output_arrives() {
    let outcome = run("-n 3 PEER meet done").expect(0);
    let expected = |rank| format!("rank {rank} of 3 met all, locals Some([0, 1, 2]), appnum Some(0)");
    assert_eq!(outcome.lines(), [expected(0), expected(1), expected(2)]);
    assert_eq!(outcome.err, "");
}

#[test]
fn lines_of_many_ranks_are_never_torn() {
    // Every rank writes its lines in pieces, as fast as it can.
    let script =
        "i=0;|while|[|$i|-lt|200|];|do|printf|a$PMI_RANK;|printf|b$PMI_RANK;|echo|c$PMI_RANK;|i=$((i+1));|done";
    let outcome = run(&format!("-n 4 sh -c {script}")).expect(0);
    for rank in 0..4 {
        let whole = format!("a{rank}b{rank}c{rank}");
        assert_eq!(outcome.out.lines().filter(|line| *line == whole).count(), 200, "rank {rank}");
    }
    assert_eq!(outcome.out.lines().count(), 800);
}

#[test]
fn both_streams_are_labelled() {
    let outcome = run("-l -n 2 PEER say=out warn=err done").expect(0);
    assert_eq!(outcome.lines(), ["[0] out", "[1] out"]);
    assert!(outcome.err.contains("[0] err\n") && outcome.err.contains("[1] err\n"), "{outcome:?}");
    let outcome = run(&format!("--tag-output {TWO_HOSTS} -n 2 PEER say=out done")).expect(0);
    assert_eq!(outcome.lines(), ["[0 on h0] out", "[1 on h1] out"]);
}

#[test]
fn a_last_line_without_newline_arrives() {
    let outcome = run("-n 2 printf no|newline").expect(0);
    assert_eq!(outcome.out, "no newline\nno newline\n");
    // The bytes of a single rank are passed on unchanged.
    assert_eq!(run("-n 1 printf no|newline").expect(0).out, "no newline");
}

#[test]
fn a_line_longer_than_the_limit_loses_nothing() {
    let script = "head|-c|200000|/dev/zero;echo";
    let outcome = run(&format!("-n 2 sh -c {script}")).expect(0);
    assert_eq!(outcome.out.bytes().filter(|&byte| byte == 0).count(), 400_000);
    assert_eq!(outcome.out.lines().count(), 2, "each line ends once");
}

#[test]
fn much_output_comes_through() {
    let outcome = run("-n 2 seq 200000").expect(0);
    let sum: u64 = outcome.out.lines().map(|line| line.parse::<u64>().expect("a whole number")).sum();
    assert_eq!(sum, 2 * (200_000 * 200_001 / 2));
}

#[test]
fn standard_error_may_join_standard_output() {
    let outcome = run("--merge-stderr-to-stdout -n 1 PEER warn=err done").expect(0);
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("err\n", ""));
}

#[test]
fn standard_input_goes_to_rank_0_or_where_it_is_wanted() {
    let typed = b"first line\nsecond line\n";
    assert_eq!(run_with_input("-l -n 3 PEER echo done", typed).expect(0).out, "[0] first line\n[0] second line\n");
    assert_eq!(run_with_input("-l --stdin 2 -n 3 PEER echo done", typed).expect(0).out.matches("[2]").count(), 2);
    assert_eq!(run_with_input("--stdin none -n 3 PEER echo done", typed).expect(0).out, "");
    let all = run_with_input(&format!("{TWO_HOSTS} --stdin all -n 3 PEER echo done"), typed).expect(0);
    assert_eq!(all.out.matches("first line\n").count(), 3);
}

#[test]
fn much_input_comes_through_and_a_reader_that_stops_does_no_harm() {
    let input: String = (0..100_000).map(|number| format!("{number}\n")).collect();
    let outcome = run_with_input("-n 2 PEER echo done", input.as_bytes()).expect(0);
    assert!(outcome.out == input, "{} of {} bytes came back", outcome.out.len(), input.len());
    run_with_input("-n 2 PEER done", input.as_bytes()).expect(0);
}

#[test]
fn statistics_of_all_ranks_are_one_table() {
    let outcome = run(&format!("--stats {TWO_HOSTS} -n 2 PEER stats done")).expect(0);
    let table = "from  to  link  messages  bytes  resends\n   0   1   udp        20   2000        0\n   1   0   udp        20   2000        2\n";
    assert_eq!(outcome.err, table);
    let outcome = run("--stats=json -n 1 PEER stats done").expect(0);
    outcome.says(r#"{"from": 0, "to": 0, "link": "udp", "messages": 20, "bytes": 2000, "resends": 0}"#);
    assert_eq!(run("-n 1 PEER stats done").expect(0).err, "", "nobody asked");
}
