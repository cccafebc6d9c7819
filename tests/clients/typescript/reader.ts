// What a backend does with the generated types: node out/reader.js BASE_URL
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./upquery.js";

type Story = components["schemas"]["story_with_votes.row"];

const client = createClient<paths>({ baseUrl: process.argv[2] ?? "" });

async function readsOneKey(): Promise<void> {
  const { data, response } = await client.GET("/v1/views/story_with_votes", { params: { query: { id: 7 } } });
  assert(data);
  const stories: Story[] = data.rows;
  const votes: number | null | undefined = stories[0]?.votes;
  assert.equal(votes, 2);
  assert.equal(stories[0]?.title, "Story 7");
  assert.equal(data.version, response.headers.get("upquery-version"));
}

async function pages(): Promise<void> {
  const seen: (number | null)[] = [];
  let after: string | undefined;
  do {
    const query = { author: "elena", limit: 7, ...(after === undefined ? {} : { after }) };
    const { data } = await client.GET("/v1/views/stories_of_author", { params: { query } });
    assert(data);
    seen.push(...data.rows.map((row) => row.id));
    after = data.next ?? undefined;
  } while (after !== undefined);
  assert.deepEqual(seen, Array.from({ length: 30 }, (_, n) => 30 - n));
}

async function asksAgainWithATag(): Promise<void> {
  const query = { name: "elena" };
  const first = await client.GET("/v1/views/karma", { params: { query } });
  const tag = first.response.headers.get("etag") ?? "";
  const again = await client.GET("/v1/views/karma", { params: { query, header: { "If-None-Match": tag } } });
  assert.equal(again.response.status, 304);
}

async function waitsForAVersion(): Promise<void> {
  const { data: checkpoint } = await client.POST("/v1/checkpoint");
  assert(checkpoint);
  const header = { "Upquery-Min-Version": checkpoint.version, Prefer: "wait=5" };
  const { data } = await client.GET("/v1/views/karma", { params: { query: { name: "elena" }, header } });
  assert.equal(data?.rows[0]?.karma, 2);
}

async function readsManyKeys(): Promise<void> {
  const body = { reads: [1, 2, 3].map((id) => ({ view: "story_with_votes", params: { id } })) };
  const { data } = await client.POST("/v1/read", { body });
  assert.deepEqual(data?.results.map((result) => result.rows[0]?.["title"]), ["Story 1", "Story 2", "Story 3"]);
}

async function handlesProblems(): Promise<void> {
  const { error } = await client.POST("/v1/views/{view}/query", {
    params: { path: { view: "story_with_votes" } },
    body: { keys: [{ id: "seven" }] },
  });
  assert(error);
  const problem: components["schemas"]["Problem"] = error;
  assert.equal(problem.code, "parameter_type");
  assert.equal(problem.retryable, false);
}

const steps = [readsOneKey, pages, asksAgainWithATag, waitsForAVersion, readsManyKeys, handlesProblems];
for (const step of steps) {
  await step();
  console.log(step.name);
}
