//go:build unix

package pgcells

import "strings"

// watched begins the keys of cells that are watched.
const watched = "live/"

// longest is how many bytes of a value a notification has at most: the whole may have 8000.
const longest = "7000"

// ddl makes the schema unless it exists. A removed cell remains as a row without a value, so that its version never goes back.
const ddl = `DO $do$ BEGIN
PERFORM pg_advisory_xact_lock(1);
IF to_regnamespace('{schema}') IS NOT NULL THEN
    RETURN;
END IF;
CREATE SCHEMA {schema};
CREATE TABLE {schema}.session (
    id         uuid PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    lasts      interval NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE {schema}.cell (
    key     text COLLATE "C" PRIMARY KEY,
    value   text,
    version bigint NOT NULL,
    session uuid
) WITH (fillfactor = 50);
CREATE INDEX cell_session ON {schema}.cell (session) WHERE session IS NOT NULL;
CREATE SEQUENCE {schema}.version;
PERFORM nextval('{schema}.version');
END $do$`

// swapSQL makes changes in one statement. $1 is the session or NULL. The keys follow, the versions that the cells must have
// (-1: there is no cell), the new values (NULL removes the cell), and whether new cells end with the session. The statement
// locks the cells in the order of their keys. It yields no row if the session is over.
const swapSQL = `
WITH alive AS MATERIALIZED (
    SELECT FROM {schema}.session WHERE id = $1::uuid AND expires_at > clock_timestamp() FOR KEY SHARE
), wanted AS MATERIALIZED (
    SELECT w.* FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bool[]) AS w (key, was, value, ephemeral)
    WHERE $1::uuid IS NULL OR EXISTS (SELECT FROM alive)
), locked AS MATERIALIZED (
    SELECT c.key, c.version, c.value FROM {schema}.cell c
    WHERE c.key = ANY ($2::text[]) AND EXISTS (SELECT FROM wanted) ORDER BY c.key FOR UPDATE
), changed AS (
    UPDATE {schema}.cell c SET value = w.value, version = nextval('{schema}.version'),
        session = CASE WHEN w.was >= 0 AND w.value IS NOT NULL THEN c.session WHEN w.ephemeral THEN $1::uuid END
    FROM wanted w JOIN locked l ON l.key = w.key
    WHERE c.key = w.key AND CASE WHEN w.was >= 0 THEN l.value IS NOT NULL AND l.version = w.was ELSE l.value IS NULL AND w.value IS NOT NULL END
    RETURNING c.key, c.version
), made AS (
    INSERT INTO {schema}.cell AS c (key, value, version, session)
    SELECT w.key, w.value, nextval('{schema}.version'), CASE WHEN w.ephemeral THEN $1::uuid END FROM wanted w
    WHERE w.was < 0 AND w.value IS NOT NULL AND NOT EXISTS (SELECT FROM locked l WHERE l.key = w.key)
    ORDER BY w.key ON CONFLICT DO NOTHING RETURNING c.key, c.version
), done AS (
    SELECT * FROM changed UNION ALL SELECT * FROM made
)
SELECT w.key, d.key IS NOT NULL OR w.was < 0 AND w.value IS NULL AND l.value IS NULL, coalesce(d.version, l.version, 0),
    CASE WHEN d.key IS NOT NULL THEN w.value ELSE l.value END,
    CASE WHEN d.key LIKE '{watched}%' THEN pg_notify('{channel}', {notice}) END IS NULL
FROM wanted w LEFT JOIN done d ON d.key = w.key LEFT JOIN locked l ON l.key = w.key`

// renewSQL renews a session, and yields the newest version, whether sessions have expired, and the members.
const renewSQL = `
WITH mine AS (
    UPDATE {schema}.session SET expires_at = clock_timestamp() + lasts WHERE id = $1::uuid AND expires_at > clock_timestamp() RETURNING id
)
SELECT (SELECT last_value FROM {schema}.version), EXISTS (SELECT FROM {schema}.session s WHERE s.expires_at <= clock_timestamp()),
    c.key, c.version, c.value
FROM mine LEFT JOIN {schema}.cell c ON c.key ^@ $2::text AND c.value IS NOT NULL`

// deadSQL locks sessions that have expired. It skips sessions that are in use at the moment.
const deadSQL = `SELECT id::text FROM {schema}.session WHERE expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED`

// lockSQL locks a session that ends.
const lockSQL = `SELECT id::text FROM {schema}.session WHERE id = $1::uuid FOR UPDATE`

// removeSQL removes the cells of locked sessions.
const removeSQL = `
WITH locked AS MATERIALIZED (
    SELECT c.key FROM {schema}.cell c WHERE c.session = ANY ($1::uuid[]) AND c.value IS NOT NULL ORDER BY c.key FOR UPDATE
), removed AS (
    UPDATE {schema}.cell c SET value = NULL, session = NULL, version = nextval('{schema}.version') FROM locked l WHERE c.key = l.key
    RETURNING c.key, c.version
), ended AS (
    DELETE FROM {schema}.session WHERE id = ANY ($1::uuid[])
)
SELECT count(pg_notify('{channel}', r.key || E'\n' || r.version || E'\n-')) FROM removed r WHERE r.key LIKE '{watched}%'`

// noticeSQL is the notification of a change: the key, the version, and the value unless that is long.
const noticeSQL = `d.key || E'\n' || d.version || CASE WHEN w.value IS NULL THEN E'\n-'
    WHEN octet_length(w.value) > {longest} THEN E'\n?' ELSE E'\n=' || w.value END`

// sql completes a text for the schema of the store.
func (s *store) sql(text string) string {
	text = strings.Replace(text, "{notice}", noticeSQL, 1)
	return strings.NewReplacer("{schema}", s.schema, "{channel}", s.schema, "{watched}", watched, "{longest}", longest).Replace(text)
}
