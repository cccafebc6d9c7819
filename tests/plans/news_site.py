"""The catalog that plans are tested with: the demo's news site, without a server."""

from dataflow.schema import Catalog, Column, SqlType, Table


def _table(
    name: str, columns: str, keys: tuple[tuple[int, ...], ...], indexes: tuple[tuple[int, ...], ...] = ()
) -> Table:
    """`columns`: ``name type``, with a ``!`` behind the type for NOT NULL, between commas."""
    found = []
    for column in columns.split(","):
        column_name, type_name = column.split()
        bare = type_name.rstrip("!")
        found.append(Column(column_name, SqlType(bare, bare), type_name.endswith("!")))
    return Table(f"public.{name}", tuple(found), keys, keys + indexes)


CATALOG = Catalog(
    {
        table.name: table
        for table in (
            _table("users", "name text!, display_name text!, joined date!, last_seen timestamptz", ((0,),)),
            _table(
                "stories",
                "id int8!, title text!, url text, author text!, created_at timestamptz!, score int4!, removed bool!,"
                " rating numeric",
                ((0,),),
                ((3,),),
            ),
            _table("votes", "story_id int8!, user_id text!, value int2!", ((0, 1),)),
            _table(
                "comments",
                "id int8!, story_id int8!, parent_id int8, author text!, body text!, created_at timestamptz!",
                ((0,),),
                ((1,), (3,)),
            ),
            _table("tags", "id int4!, name text!", ((0,), (1,))),
            _table("taggings", "story_id int8!, tag_id int4!", ((0, 1),), ((1,),)),
        )
    }
)
