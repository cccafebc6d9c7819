"""A backend that uses the generated package ``upquery_client``: ``python reader.py BASE_URL``."""

import sys

from upquery_client import Client
from upquery_client.api.reads import create_checkpoint, query_view, read_many
from upquery_client.api.views import karma, stories_of_author, story_with_votes
from upquery_client.models import (
    Checkpoint,
    KarmaAnswer,
    Problem,
    ReadResults,
    Reads,
    StoriesOfAuthorAnswer,
    StoryWithVotesAnswer,
    ViewKeys,
    ViewKeysKeysItem,
    ViewRead,
    ViewReadParams,
)
from upquery_client.types import UNSET, Unset


def reads_one_key(client: Client) -> None:
    answer = story_with_votes.sync(client=client, id=7)
    assert isinstance(answer, StoryWithVotesAnswer)
    votes: int | None = answer.rows[0].votes
    assert (answer.rows[0].title, votes) == ("Story 7", 2)


def pages(client: Client) -> None:
    seen: list[int | None] = []
    after: str | Unset = UNSET
    while True:
        answer = stories_of_author.sync(client=client, author="elena", limit=7, after=after)
        assert isinstance(answer, StoriesOfAuthorAnswer)
        seen += [row.id for row in answer.rows]
        if answer.next_ is None:
            break
        after = answer.next_
    assert seen == list(range(30, 0, -1))


def asks_again_with_a_tag(client: Client) -> None:
    first = karma.sync_detailed(client=client, name="elena")
    again = karma.sync_detailed(client=client, name="elena", if_none_match=first.headers["etag"])
    assert again.status_code == 304


def waits_for_a_version(client: Client) -> None:
    checkpoint = create_checkpoint.sync(client=client)
    assert isinstance(checkpoint, Checkpoint)
    answer = karma.sync(client=client, name="elena", upquery_min_version=checkpoint.version, prefer="wait=5")
    assert isinstance(answer, KarmaAnswer)
    assert answer.rows[0].karma == 2


def reads_many_keys(client: Client) -> None:
    reads = [ViewRead("story_with_votes", ViewReadParams.from_dict({"id": number})) for number in (1, 2, 3)]
    answer = read_many.sync(client=client, body=Reads(reads))
    assert isinstance(answer, ReadResults)
    assert [result.rows[0]["title"] for result in answer.results] == ["Story 1", "Story 2", "Story 3"]


def handles_problems(client: Client) -> None:
    keys = ViewKeys([ViewKeysKeysItem.from_dict({"id": "seven"})])
    problem = query_view.sync(client=client, view="story_with_votes", body=keys)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.retryable) == ("parameter_type", False)


def main(url: str) -> None:
    client = Client(base_url=url, raise_on_unexpected_status=True)
    for step in (reads_one_key, pages, asks_again_with_a_tag, waits_for_a_version, reads_many_keys, handles_problems):
        step(client)
        sys.stdout.write(f"{step.__name__}\n")


if __name__ == "__main__":
    main(sys.argv[1])
