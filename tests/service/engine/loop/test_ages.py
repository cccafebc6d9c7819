"""Ages of answers, also of those that another process has left."""

from service.engine.loop.ages import Ages


def test_the_age_is_that_of_the_last_heartbeat_that_is_applied() -> None:
    ages = Ages(1_000)
    ages.sent(1_100, 20)
    ages.sent(1_200, 30)
    assert ages.applied(10) == 1_000
    assert ages.applied(20) == 1_100
    assert ages.applied(35) == 1_200
    assert ages.sent_ms_at(25) == 1_100


def test_state_of_another_process_is_as_old_as_it_was_there() -> None:
    ages = Ages(1_000)
    ages.restarted()
    ages.continues(400)
    assert (ages.applied(10), ages.sent_ms_at(10)) == (400, 400)
    ages.sent(1_100, 20)
    assert ages.applied(19) == 400
    assert ages.applied(20) == 1_100
    assert ages.sent_ms_at(19) == 400
