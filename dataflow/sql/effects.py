"""Statements and functions that do more than read, told by the words alone: also where a text has no syntax tree.

Not here: the same for what has one (`parse`), which says more of where.
"""

import re

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dataflow.errors import InvalidQuery, Span
from dataflow.sql.parse import tokens_of

#: What a statement that gives rows may begin with.
_BEGINS = frozenset({"select", "with", "values", "table", "("})
#: Two words that begin a change, or take locks.
_CHANGES = frozenset({
    ("insert", "into"), ("delete", "from"), ("merge", "into"),
})  # fmt: skip
_LOCKS = frozenset({("for", "update"), ("for", "share"), ("for", "no"), ("for", "key")})
#: Functions of PostgreSQL that change something that a rollback does not take back, or that wait.
_EFFECTS = re.compile(
    r"nextval|setval|set_config|pg_notify|pg_sleep\w*|pg_(try_)?advisory_\w+|pg_terminate_backend|pg_cancel_backend"
    r"|pg_reload_conf|pg_rotate_logfile\w*|pg_switch_wal|pg_create_\w+|pg_drop_\w+|pg_logical_\w+|pg_replication_\w+"
    r"|pg_copy_\w+|pg_promote|pg_wal_replay_\w+|pg_backup_\w+|pg_(start|stop)_backup|pg_export_snapshot|pg_stat_reset\w*"
    r"|pg_stat_force\w*|pg_stat_clear\w*|pg_import_\w+|pg_log_\w+|pg_file_\w+|lo_(?!get)\w+|lowrite|dblink\w*|txid_current"
    r"|pg_current_xact_id|setseed|pg_prewarm|query_to_xml\w*|pg_restore_\w+|pg_clear_\w+"
)


def check_effects(sql: str) -> None:
    """Raises `InvalidQuery` for what is not one statement that only reads."""
    try:
        tokens = tokens_of(sql)
    except TokenError as error:
        raise InvalidQuery("The SQL has a string, identifier or comment that does not end.") from error
    words = ["" if t.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else t.text.lower() for t in tokens]
    if words and words[0] not in _BEGINS:
        raise InvalidQuery("A view is a SELECT.", _span(tokens[0]))
    for i, (token, word) in enumerate(zip(tokens, words, strict=True)):
        after = words[i + 1] if i + 1 < len(words) else ""
        before = words[i - 1] if i else ""
        updates = word == "update" and before == "(" and "set" in words[i:]
        if updates or ((word, after) in _CHANGES and before != "."):
            reason = "A view only reads: it must be a SELECT that changes nothing."
            raise InvalidQuery(reason, _span(token), "Remove the write.")
        if (word, after) in _LOCKS and before != "(":
            raise InvalidQuery("A view takes no locks.", _span(token), "Remove FOR UPDATE or FOR SHARE.")
        if after == "(" and before not in ("as", ".") and _EFFECTS.fullmatch(word):
            raise InvalidQuery(f"A view changes nothing, so it cannot call {word}.", _span(token))
        if after == "(" and before == "." and words[i - 2] == "pg_catalog" and _EFFECTS.fullmatch(word):
            raise InvalidQuery(f"A view changes nothing, so it cannot call {word}.", _span(token))


def _span(token: Token) -> Span:
    return Span(token.start, token.end + 1)
