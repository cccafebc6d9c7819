"""Memory of a topic's states, and the versions that resume from it."""

from hypothesis import given
from hypothesis import strategies as st

from service.worker.subscriptions.diff import Change
from service.worker.subscriptions.entries import Entry, EventKind, change, must_refetch, snapshot
from service.worker.subscriptions.log import TopicLog
from service.worker.subscriptions.tokens import UNLISTED, names, read_token, write_token


def entry(number: int, size: int = 0) -> Entry:
    return Entry(EventKind.CHANGE, str(number), b"x" * size, b"")


def test_a_version_resumes_where_its_state_is_known() -> None:
    log = TopicLog(100, 110, 10, 1000)
    log.confirm(100, 120)
    log.append(130, 140, entry(1))
    log.append(150, 150, entry(2))
    found = {at: log.find(at) for at in (99, 100, 120, 121, 130, 140, 145, 150, 151)}
    assert found == {99: None, 100: 0, 120: 0, 121: None, 130: 1, 140: 1, 145: None, 150: 2, 151: None}
    assert [e.token for e in log.behind(0) or ()] == ["1", "2"]
    assert list(log.behind(2) or ()) == []


def test_rows_that_are_the_same_again_may_have_been_others() -> None:
    log = TopicLog(100, 110, 10, 1000)
    log.confirm(120, 130)
    assert [log.find(at) for at in (110, 115, 120)] == [0, None, 1]
    assert list(log.behind(0) or ()) == []


def test_a_state_does_not_begin_before_the_one_before_it_ended() -> None:
    log = TopicLog(100, 110, 10, 1000)
    log.append(105, 120, entry(1))
    assert [log.find(at) for at in (105, 110, 111)] == [0, 0, 1]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(1, 6), st.integers(1, 100))
def test_a_log_has_its_bounds_and_whoever_is_up_to_date_misses_nothing(sizes: list[int], most: int, room: int) -> None:
    log = TopicLog(0, 0, most, room)
    for number, size in enumerate(sizes, start=1):
        at = log.last
        log.append(number, number, entry(number, size))
        assert [e.token for e in log.behind(at) or ()] == [str(number)]
        assert log.size_bytes <= max(room, size)
        remembered = [n for n in range(log.last + 1) if log.behind(n) is not None]
        assert len(remembered) <= most + 1
        assert remembered[-1] == log.last
        for n in remembered:
            assert [e.token for e in log.behind(n) or ()] == [str(later) for later in range(n + 1, log.last + 1)]


def test_tokens_say_where_and_of_which_continuity() -> None:
    token = write_token(0x16B3748, "abcdef0123456789")
    assert token == "pg:0/16B3748~abcdef01"
    assert read_token(token) == (0x16B3748, "abcdef01")
    assert names(read_token(token), "abcdef0199999999")
    assert not names(read_token(token), "0" * 32 if UNLISTED != "0" * 8 else "1" * 32)
    assert names(read_token("0/16B3748"), "whichever")


def test_events_are_lines() -> None:
    sent = snapshot(b'[{"j":{\r\n"a":1\r}}]', 255, "t").sse
    assert sent == b'event: snapshot\nid: t\ndata: {"rows":[{"j":{\ndata: "a":1\ndata: }}],"version":"pg:0/FF"}\n\n'
    closed = change(Change([b"{}"], [0], [], []), 255, "t").sse
    assert closed.endswith(b'\n\nevent: up-to-date\nid: t\ndata: {"version":"pg:0/FF"}\n\n')
    assert b"\nid:\n" in must_refetch("gone").sse


def test_a_version_of_two_states_resumes_neither() -> None:
    log = TopicLog(100, 110, 10, 1000)
    log.append(111, 110, entry(1))
    log.confirm(111, 120)
    assert [log.find(at) for at in (109, 110, 111, 120)] == [0, None, 1, 1]


def test_what_is_not_needed_can_be_forgotten() -> None:
    log = TopicLog(0, 0, 10, 1000)
    for number in range(1, 5):
        log.append(number, number, entry(number, 10))
    log.shorten()
    assert log.size_bytes == 10
    assert [log.behind(n) is not None for n in range(5)] == [False, False, False, True, True]
