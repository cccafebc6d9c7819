// Each marked line is a mistake that the types must find: tsc fails on a marked line that compiles.
import createClient from "openapi-fetch";
import type { components, paths } from "./upquery.js";

const client = createClient<paths>({ baseUrl: "" });

// @ts-expect-error: there is no such view.
await client.GET("/v1/views/storys_with_votes", { params: { query: { id: 7 } } });
// @ts-expect-error: a parameter is missing.
await client.GET("/v1/views/story_with_votes", { params: { query: {} } });
// @ts-expect-error: an id is a number.
await client.GET("/v1/views/story_with_votes", { params: { query: { id: "7" } } });
// @ts-expect-error: views are read, not posted to.
await client.POST("/v1/views/story_with_votes", { params: { query: { id: 7 } } });
// @ts-expect-error: a read names its view.
await client.POST("/v1/read", { body: { reads: [{ params: { id: 7 } }] } });

const { data, error } = await client.GET("/v1/views/story_with_votes", { params: { query: { id: 7 } } });
// @ts-expect-error: there may be no data.
data.rows;
if (data) {
  // @ts-expect-error: a row has no such column.
  data.rows.map((row) => row.vote);
  // @ts-expect-error: a count is a number.
  const votes: string[] = data.rows.map((row) => row.votes);
}
if (error) {
  // @ts-expect-error: a problem's status is a number.
  const status: string = error.status;
}
// @ts-expect-error: a row has all its columns.
const row: components["schemas"]["story_with_votes.row"] = { id: 7, title: "" };
