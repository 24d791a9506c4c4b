-- A session is what a process has to prove that it lives: it holds members, leaderships
-- and permits for as long as it renews its lease. Only the database's clock counts. A
-- session ends by the removal of its row, together with all that it holds: then its
-- process, should it wake up again, finds nothing to renew.
CREATE TABLE {schema}.session (
    id         uuid PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    beats      bigint NOT NULL,           -- number of the newest coord_beat
    orders     bigint NOT NULL DEFAULT 0  -- number of the newest coord_permits
) WITH (fillfactor = 50);

CREATE TABLE {schema}.member (
    incarnation uuid PRIMARY KEY,
    session     uuid NOT NULL,
    name        text NOT NULL,
    handlers    text[] NOT NULL,
    labels      jsonb NOT NULL,
    draining    boolean NOT NULL,
    joined_at   timestamptz NOT NULL,
    died_at     timestamptz               -- kept for an hour, so that people can see it
);

CREATE TABLE {schema}.leader (
    role    text PRIMARY KEY,
    session uuid,                         -- NULL: nobody
    term    bigint NOT NULL,
    since   timestamptz NOT NULL
);

-- A semaphore's row is locked by whoever changes anything of its permits.
CREATE TABLE {schema}.semaphore (
    name text PRIMARY KEY,
    most bigint NOT NULL
);

CREATE TABLE {schema}.permit (
    id         uuid PRIMARY KEY,
    session    uuid NOT NULL,
    name       text NOT NULL,
    n          bigint NOT NULL,
    place      bigint GENERATED ALWAYS AS IDENTITY,
    granted_at timestamptz                -- NULL: waits
);
CREATE INDEX permit_place ON {schema}.permit (name, place);
CREATE INDEX permit_session ON {schema}.permit (session);

CREATE TABLE {schema}.setting (
    name  text NOT NULL,
    scope text NOT NULL,                  -- '': for all that have none of their own
    value bytea NOT NULL,
    PRIMARY KEY (name, scope)
);

-- What changed last, so that a heartbeat can tell news from none. Of all rows it is
-- locked last. A failover to a replica that lacks the last commits takes both back, and
-- other changes follow then: no version may ever stand for two states.
CREATE TABLE {schema}.pulse (
    single   boolean PRIMARY KEY CHECK (single),
    members  bigint NOT NULL,             -- another random number after every change
    settings bigint NOT NULL              -- it grows with every change, and is not below the time of the change
) WITH (fillfactor = 50);
INSERT INTO {schema}.pulse VALUES (true, 0, 0);

-- coord_stamp returns a random number from 1 to 2^48.
CREATE FUNCTION {schema}.coord_stamp() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT 1 + ('x' || translate(substr(gen_random_uuid()::text, 1, 14), '-', ''))::bit(48)::bigint
$$;

-- coord_later returns the version that follows one: the time in microseconds since 1970, or one more.
CREATE FUNCTION {schema}.coord_later(last bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT greatest(last + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- The functions read again what they have waited to lock, so each statement in them
-- needs to see what is committed by then.
CREATE FUNCTION {schema}.coord_check() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'coordination needs the isolation level read committed, not %',
            current_setting('transaction_isolation')
            USING HINT = 'Reset default_transaction_isolation for this role and database.';
    END IF;
END $$;

-- coord_grant serves those who wait for permits, the first one first, and tells sessions
-- other than p_me, which learns by itself. Its caller has locked the semaphore.
CREATE FUNCTION {schema}.coord_grant(p_name text, p_me uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    room bigint;
    ask  record;
    told boolean;
BEGIN
    SELECT most INTO room FROM {schema}.semaphore WHERE name = p_name;
    DELETE FROM {schema}.permit WHERE name = p_name AND granted_at IS NULL AND n > room;
    told := FOUND;
    room := room - coalesce((SELECT sum(n) FROM {schema}.permit WHERE name = p_name AND granted_at IS NOT NULL), 0);
    FOR ask IN SELECT id, session, n FROM {schema}.permit WHERE name = p_name AND granted_at IS NULL ORDER BY place LOOP
        EXIT WHEN ask.n > room;
        UPDATE {schema}.permit SET granted_at = clock_timestamp() WHERE id = ask.id;
        room := room - ask.n;
        told := told OR ask.session IS DISTINCT FROM p_me;
    END LOOP;
    IF told THEN
        PERFORM pg_notify({channel}, 'c:permit');
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.permit WHERE name = p_name) THEN
        DELETE FROM {schema}.semaphore WHERE name = p_name;
    END IF;
END $$;

-- coord_reap ends the sessions whose lease is over, with all that they hold, and returns
-- whether members died. Who is just being renewed or served is left for later.
CREATE FUNCTION {schema}.coord_reap() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    dead  uuid[];
    which text;
BEGIN
    SELECT array_agg(s.id) INTO dead FROM (
        SELECT id FROM {schema}.session WHERE expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED) s;
    IF dead IS NULL THEN
        RETURN false;
    END IF;
    DELETE FROM {schema}.session WHERE id = ANY (dead);
    UPDATE {schema}.leader SET session = NULL WHERE session = ANY (dead);
    IF FOUND THEN
        PERFORM pg_notify({channel}, 'c:leader');
    END IF;
    FOR which IN SELECT DISTINCT name FROM {schema}.permit WHERE session = ANY (dead) ORDER BY name LOOP
        PERFORM FROM {schema}.semaphore WHERE name = which FOR UPDATE;
        DELETE FROM {schema}.permit WHERE session = ANY (dead) AND name = which;
        PERFORM {schema}.coord_grant(which, NULL);
    END LOOP;
    DELETE FROM {schema}.member WHERE died_at < clock_timestamp() - interval '1 hour';
    UPDATE {schema}.member SET died_at = clock_timestamp() WHERE session = ANY (dead);
    RETURN FOUND;
END $$;

-- coord_beat is the heartbeat of a process, all of it in one round trip: it renews the
-- session, ends those that have expired, brings members and roles to what the process
-- wants, and answers with what it has and what is new. The request:
--   session, beat   whose heartbeat it is, and its number: an older one is refused
--   lease           milliseconds from now to the session's end
--   open            whether the session may be new
--   former          sessions that the process has given up
--   joining         members to announce, for the first time or as something else
--   members         incarnations announced before
--   leaving         incarnations to withdraw
--   roles           all roles that the process has or waits for; others are given up
--   seen            the version of the list of members that it knows, if it wants
--                   the list
-- The answer is {"alive": false} or
--   alive     true
--   held      the roles that the process has
--   strangers those of joining and members that are not this session's live members
--   peers     whether there are other sessions
--   settings  the version of the settings
--   version   the version of the list of members
--   list      the live members, if they have another version than seen
CREATE FUNCTION {schema}.coord_beat(q jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    me      uuid := (q->>'session')::uuid;
    number  bigint := (q->>'beat')::bigint;
    lease   interval := make_interval(secs => (q->>'lease')::double precision / 1000);
    joining jsonb := coalesce(q->'joining', '[]');
    mine    uuid[] := ARRAY(SELECT jsonb_array_elements_text(q->'members')::uuid);
    leaving uuid[] := ARRAY(SELECT jsonb_array_elements_text(q->'leaving')::uuid);
    roles   text[] := ARRAY(SELECT jsonb_array_elements_text(q->'roles'));
    changed boolean := false;
    added   uuid[];
    answer  jsonb;
BEGIN
    PERFORM {schema}.coord_check();
    UPDATE {schema}.session SET expires_at = clock_timestamp() + lease, beats = number
        WHERE id = me AND beats < number AND expires_at > clock_timestamp();
    IF NOT FOUND THEN
        IF NOT (q->>'open')::boolean THEN
            RETURN '{"alive": false}';
        END IF;
        INSERT INTO {schema}.session (id, expires_at, beats) VALUES (me, clock_timestamp() + lease, number)
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN '{"alive": false}';
        END IF;
        PERFORM pg_notify({channel}, 'c:member');
    END IF;

    UPDATE {schema}.session SET expires_at = '-infinity'
        WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(q->'former')::uuid)) AND id <> me;
    IF EXISTS (SELECT FROM {schema}.session WHERE expires_at <= clock_timestamp()) THEN
        changed := {schema}.coord_reap();
        PERFORM pg_notify({channel}, 'c:member');
    END IF;

    UPDATE {schema}.leader SET session = NULL WHERE session = me AND role <> ALL (roles);
    IF FOUND THEN
        PERFORM pg_notify({channel}, 'c:leader');
    END IF;
    INSERT INTO {schema}.leader AS l (role, session, term, since)
        SELECT r, me, 1, clock_timestamp() FROM unnest(roles) r
        WHERE NOT EXISTS (SELECT FROM {schema}.leader x WHERE x.role = r AND x.session IS NOT NULL)
        ORDER BY r
        ON CONFLICT (role) DO UPDATE SET session = excluded.session, term = l.term + 1, since = excluded.since
        WHERE l.session IS NULL;

    DELETE FROM {schema}.member WHERE session = me AND incarnation = ANY (leaving);
    changed := changed OR FOUND;
    IF jsonb_array_length(joining) > 0 THEN
        DELETE FROM {schema}.member WHERE died_at < clock_timestamp() - interval '1 hour';
        INSERT INTO {schema}.member AS m (incarnation, session, name, handlers, labels, draining, joined_at)
            SELECT (j->>'incarnation')::uuid, me, j->>'name', ARRAY(SELECT jsonb_array_elements_text(j->'handlers')),
                j->'labels', (j->>'draining')::boolean, clock_timestamp()
            FROM jsonb_array_elements(joining) j
            ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, handlers = excluded.handlers,
                labels = excluded.labels, draining = excluded.draining
            WHERE m.session = me AND m.died_at IS NULL;
        changed := changed OR FOUND;
        added := ARRAY(SELECT (j->>'incarnation')::uuid FROM jsonb_array_elements(joining) j);
    END IF;
    IF changed THEN
        UPDATE {schema}.pulse SET members = {schema}.coord_stamp();
        PERFORM pg_notify({channel}, 'c:member');
    END IF;

    SELECT jsonb_build_object(
        'alive', true,
        'held', (SELECT jsonb_agg(l.role) FROM {schema}.leader l WHERE l.session = me),
        'strangers', (SELECT jsonb_agg(u) FROM unnest(mine || added) u WHERE NOT EXISTS (
            SELECT FROM {schema}.member m WHERE m.incarnation = u AND m.session = me AND m.died_at IS NULL)),
        'peers', EXISTS (SELECT FROM {schema}.session s WHERE s.id <> me),
        'settings', p.settings,
        'version', p.members,
        'list', CASE WHEN (q->>'seen')::bigint <> p.members THEN (
            SELECT jsonb_agg(jsonb_build_object('incarnation', m.incarnation, 'name', m.name,
                'handlers', m.handlers, 'labels', m.labels, 'draining', m.draining) ORDER BY m.incarnation)
            FROM {schema}.member m WHERE m.died_at IS NULL) END)
        INTO answer FROM {schema}.pulse p;
    RETURN answer;
END $$;

-- coord_end ends a session at once: what it holds is free, and its members have left.
CREATE FUNCTION {schema}.coord_end(p_session uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    changed boolean;
BEGIN
    PERFORM {schema}.coord_check();
    UPDATE {schema}.session SET expires_at = '-infinity' WHERE id = p_session;
    DELETE FROM {schema}.member WHERE session = p_session AND died_at IS NULL;
    changed := FOUND;
    changed := {schema}.coord_reap() OR changed;
    IF changed THEN
        UPDATE {schema}.pulse SET members = {schema}.coord_stamp();
    END IF;
    PERFORM pg_notify({channel}, 'c:member');
END $$;

-- coord_permits orders and gives back permits. The request:
--   session, order  whose request it is, and its number: an older one is refused
--   asks            permits to wait for from now on: id, name, n, most
--   drops           ids of permits to give back, granted or not
--   waiting         ids of all permits waited for
-- The answer is {"alive": false}, or those of waiting that are granted, and those that
-- never will be because there is a lower limit now.
CREATE FUNCTION {schema}.coord_permits(q jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    me    uuid := (q->>'session')::uuid;
    drops uuid[] := ARRAY(SELECT jsonb_array_elements_text(q->'drops')::uuid);
    asks  jsonb := coalesce(q->'asks', '[]');
    what  record;
BEGIN
    PERFORM {schema}.coord_check();
    UPDATE {schema}.session SET orders = (q->>'order')::bigint
        WHERE id = me AND orders < (q->>'order')::bigint AND expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN '{"alive": false}';
    END IF;
    FOR what IN
        SELECT w.name, max(w.most) FILTER (WHERE w.newest) AS most FROM (
            SELECT a->>'name' AS name, (a->>'most')::bigint AS most,
                row_number() OVER (PARTITION BY a->>'name' ORDER BY i DESC) = 1 AS newest
            FROM jsonb_array_elements(asks) WITH ORDINALITY AS e(a, i)
            UNION ALL
            SELECT p.name, NULL, false FROM {schema}.permit p WHERE p.id = ANY (drops) AND p.session = me) w
        GROUP BY w.name ORDER BY w.name
    LOOP
        IF what.most IS NULL THEN
            PERFORM FROM {schema}.semaphore WHERE name = what.name FOR UPDATE;
        ELSE
            INSERT INTO {schema}.semaphore (name, most) VALUES (what.name, what.most)
                ON CONFLICT (name) DO UPDATE SET most = excluded.most;
        END IF;
        DELETE FROM {schema}.permit WHERE id = ANY (drops) AND session = me AND name = what.name;
        INSERT INTO {schema}.permit (id, session, name, n)
            SELECT (a->>'id')::uuid, me, what.name, (a->>'n')::bigint
            FROM jsonb_array_elements(asks) WITH ORDINALITY AS e(a, i)
            WHERE a->>'name' = what.name AND (a->>'id')::uuid <> ALL (drops) ORDER BY i
            ON CONFLICT DO NOTHING;
        PERFORM {schema}.coord_grant(what.name, me);
    END LOOP;
    RETURN jsonb_build_object(
        'alive', true,
        'granted', (SELECT jsonb_agg(w) FROM jsonb_array_elements_text(q->'waiting') w
            JOIN {schema}.permit p ON p.id = w::uuid AND p.granted_at IS NOT NULL),
        'refused', (SELECT jsonb_agg(w) FROM jsonb_array_elements_text(q->'waiting') w
            WHERE NOT EXISTS (SELECT FROM {schema}.permit p WHERE p.id = w::uuid)));
END $$;

-- coord_set stores a setting, or removes it if the value is NULL.
CREATE FUNCTION {schema}.coord_set(p_name text, p_scope text, p_value bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_value IS NULL THEN
        DELETE FROM {schema}.setting WHERE name = p_name AND scope = p_scope;
    ELSE
        INSERT INTO {schema}.setting AS s (name, scope, value) VALUES (p_name, p_scope, p_value)
            ON CONFLICT (name, scope) DO UPDATE SET value = excluded.value;
    END IF;
    UPDATE {schema}.pulse SET settings = {schema}.coord_later(settings);
    PERFORM pg_notify({channel}, 'c:setting');
END $$;
