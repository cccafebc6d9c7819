"""Each marked line is a mistake that mypy must find, with that code: an unused ``type: ignore`` is an error."""

from upquery_client import Client
from upquery_client.api.views import stories_of_author, story_with_votes
from upquery_client.models import StoryWithVotesAnswer, StoryWithVotesRow, ViewRead

client = Client(base_url="")

story_with_votes.sync(client=client)  # type: ignore[call-arg]
story_with_votes.sync(client=client, id="7")  # type: ignore[arg-type]
story_with_votes.sync(client=client, id=7, limit=1)  # type: ignore[call-arg]
stories_of_author.sync(client=client, author="elena", limit="7")  # type: ignore[arg-type]
ViewRead()  # type: ignore[call-arg]
StoryWithVotesRow(id=7, title="")  # type: ignore[call-arg]

answer = story_with_votes.sync(client=client, id=7)
rows = answer.rows  # type: ignore[union-attr]
if isinstance(answer, StoryWithVotesAnswer):
    vote = answer.rows[0].vote  # type: ignore[attr-defined]
    title: int = answer.rows[0].title  # type: ignore[assignment]
