-- The functions. A program replaces all of them when it migrates a database whose functions are others.

-- coord_stamp returns a random number from 1 to 2^48.
CREATE OR REPLACE FUNCTION {schema}.coord_stamp() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT 1 + ('x' || translate(substr(gen_random_uuid()::text, 1, 14), '-', ''))::bit(48)::bigint
$$;

-- coord_later returns the version that follows one: the time in microseconds since 1970, or one more.
CREATE OR REPLACE FUNCTION {schema}.coord_later(last bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT greatest(last + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- The functions read again what they have waited to lock, so each statement in them
-- needs to see what is committed by then.
CREATE OR REPLACE FUNCTION {schema}.coord_check() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'coordination needs the isolation level read committed, not %',
            current_setting('transaction_isolation')
            USING HINT = 'Reset default_transaction_isolation for this role and database.';
    END IF;
END $$;

-- coord_reap ends the sessions whose lease is over, with all that they hold, and returns
-- whether members died. Who is just being renewed or served is left for later.
CREATE OR REPLACE FUNCTION {schema}.coord_reap() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    dead  uuid[];
    names text[];
BEGIN
    SELECT array_agg(s.id) INTO dead FROM (
        SELECT id FROM {schema}.session WHERE expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED) s;
    IF dead IS NULL THEN
        RETURN false;
    END IF;
    DELETE FROM {schema}.session WHERE id = ANY (dead);
    DELETE FROM {schema}.ordering WHERE session = ANY (dead);
    UPDATE {schema}.leader SET session = NULL WHERE session = ANY (dead);
    IF FOUND THEN
        PERFORM pg_notify({channel}, 'c:leader');
    END IF;
    names := ARRAY(SELECT DISTINCT p.name FROM {schema}.permit p WHERE p.session = ANY (dead));
    IF cardinality(names) > 0 THEN
        PERFORM FROM {schema}.semaphore s WHERE s.name = ANY (names) ORDER BY s.name FOR UPDATE;
        DELETE FROM {schema}.permit p WHERE p.session = ANY (dead);
        PERFORM {schema}.coord_serve(names, NULL);
    END IF;
    DELETE FROM {schema}.member WHERE died_at < clock_timestamp() - interval '1 hour';
    UPDATE {schema}.member SET died_at = clock_timestamp() WHERE session = ANY (dead);
    RETURN FOUND;
END $$;

-- coord_beat is the heartbeat of a process, all of it in one round trip: it renews the
-- session, shortens those that end later than their lease allows, ends those that have expired, brings members and roles to what the process
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
CREATE OR REPLACE FUNCTION {schema}.coord_beat(q jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
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
    UPDATE {schema}.session SET expires_at = clock_timestamp() + lease, beats = number, lasts = lease
        WHERE id = me AND beats < number AND expires_at > clock_timestamp();
    IF NOT FOUND THEN
        IF NOT (q->>'open')::boolean THEN
            RETURN '{"alive": false}';
        END IF;
        INSERT INTO {schema}.session (id, expires_at, beats, lasts) VALUES (me, clock_timestamp() + lease, number, lease)
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN '{"alive": false}';
        END IF;
        PERFORM pg_notify({channel}, 'c:member');
    END IF;

    UPDATE {schema}.session SET expires_at = '-infinity'
        WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(q->'former')::uuid)) AND id <> me;
    -- Its lease begins anew: a process that lives has less left of it by its own clock.
    UPDATE {schema}.session SET expires_at = clock_timestamp() + lasts WHERE id = ANY (ARRAY(
        SELECT id FROM {schema}.session WHERE id <> me AND expires_at > clock_timestamp() + lasts FOR UPDATE SKIP LOCKED));
    IF EXISTS (SELECT FROM {schema}.session WHERE expires_at <= clock_timestamp()) THEN
        BEGIN
            IF {schema}.coord_reap() THEN
                UPDATE {schema}.pulse SET members = {schema}.coord_stamp();
            END IF;
            PERFORM pg_notify({channel}, 'c:member');
        EXCEPTION WHEN lock_not_available THEN -- a later heartbeat ends them; no lease may depend on that
        END;
    END IF;

    -- A heartbeat that changes nothing writes to no table but session, so a lock that keeps others from writing, such as
    -- that of CREATE INDEX, does not keep it waiting.
    IF EXISTS (SELECT FROM {schema}.leader WHERE session = me AND role <> ALL (roles)) THEN
        UPDATE {schema}.leader SET session = NULL WHERE session = me AND role <> ALL (roles);
        PERFORM pg_notify({channel}, 'c:leader');
    END IF;
    IF EXISTS (SELECT FROM unnest(roles) r WHERE NOT EXISTS (SELECT FROM {schema}.leader x WHERE x.role = r AND x.session IS NOT NULL)) THEN
        INSERT INTO {schema}.leader AS l (role, session, term, since)
            SELECT r, me, 1, clock_timestamp() FROM unnest(roles) r
            WHERE NOT EXISTS (SELECT FROM {schema}.leader x WHERE x.role = r AND x.session IS NOT NULL)
            ORDER BY r
            ON CONFLICT (role) DO UPDATE SET session = excluded.session, term = l.term + 1, since = excluded.since
            WHERE l.session IS NULL;
    END IF;

    IF cardinality(leaving) > 0 THEN
        DELETE FROM {schema}.member WHERE session = me AND incarnation = ANY (leaving);
        changed := changed OR FOUND;
    END IF;
    IF jsonb_array_length(joining) > 0 THEN
        DELETE FROM {schema}.member WHERE died_at < clock_timestamp() - interval '1 hour';
        INSERT INTO {schema}.member AS m (incarnation, session, name, handlers, selectors, labels, draining, address, version, joined_at)
            SELECT (j->>'incarnation')::uuid, me, j->>'name', ARRAY(SELECT jsonb_array_elements_text(j->'handlers')),
                ARRAY(SELECT jsonb_array_elements_text(j->'selectors')), j->'labels', (j->>'draining')::boolean, j->>'address', j->>'version', clock_timestamp()
            FROM jsonb_array_elements(joining) j
            ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, handlers = excluded.handlers,
                selectors = excluded.selectors, labels = excluded.labels, draining = excluded.draining,
                address = excluded.address, version = excluded.version
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
                'handlers', m.handlers, 'selectors', m.selectors, 'labels', m.labels, 'draining', m.draining, 'address', m.address, 'version', m.version) ORDER BY m.incarnation)
            FROM {schema}.member m WHERE m.died_at IS NULL) END)
        INTO answer FROM {schema}.pulse p;
    RETURN answer;
END $$;

-- coord_end ends a session at once: what it holds is free, and its members have left.
CREATE OR REPLACE FUNCTION {schema}.coord_end(p_session uuid) RETURNS void LANGUAGE plpgsql AS $$
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

-- coord_swap stores a setting, or removes it if p_value is NULL, if it has a version (0: there is none). It
-- returns the setting after that, or as it is.
CREATE OR REPLACE FUNCTION {schema}.coord_swap(p_name text, p_scope text, p_version bigint, p_value bytea,
    OUT swapped boolean, OUT version bigint, OUT value bytea) LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    PERFORM {schema}.coord_check();
    LOOP
        SELECT s.version, s.value INTO version, value FROM {schema}.setting s
            WHERE s.name = p_name AND s.scope = p_scope FOR UPDATE;
        version := coalesce(version, 0);
        swapped := version = p_version;
        IF NOT swapped OR version = 0 AND p_value IS NULL THEN
            RETURN;
        END IF;
        EXIT WHEN version > 0;
        INSERT INTO {schema}.setting (name, scope, value) VALUES (p_name, p_scope, p_value)
            ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
    END LOOP;
    UPDATE {schema}.pulse p SET settings = {schema}.coord_later(p.settings) RETURNING p.settings INTO newest;
    IF p_value IS NULL THEN
        DELETE FROM {schema}.setting s WHERE s.name = p_name AND s.scope = p_scope;
        newest := 0;
    ELSE
        UPDATE {schema}.setting s SET value = p_value, version = newest WHERE s.name = p_name AND s.scope = p_scope;
    END IF;
    version := newest;
    value := p_value;
    PERFORM pg_notify({channel}, 'c:setting');
END $$;

-- coord_standing returns what the holders of semaphores have, and what they know of the others. An order
-- for more than there is waits, and is not counted.
CREATE OR REPLACE FUNCTION {schema}.coord_standing(names text[]) RETURNS TABLE (name text, holder uuid, session uuid,
    held bigint, fence bigint, share bigint, waiting bigint, needed bigint) LANGUAGE sql STABLE AS $$
    WITH permits AS (
        SELECT p.*, s.most, p.held < p.wanted AND p.at_least <= s.most AS waits
        FROM {schema}.permit p JOIN {schema}.semaphore s ON s.name = p.name
        WHERE p.name = ANY (names) AND s.name = ANY (names)
    ), shares AS (
        SELECT p.*, p.most / greatest(1, count(*) FILTER (WHERE p.held > 0 OR p.waits) OVER w) AS share,
            greatest(0, sum(p.held) OVER w - p.most) AS above
        FROM permits p WINDOW w AS (PARTITION BY p.name)
    ), lacks AS (
        SELECT p.*, CASE WHEN p.waits THEN p.wanted - p.held ELSE 0 END AS lacks,
            CASE WHEN NOT p.waits THEN 0 WHEN p.held = 0 THEN least(p.wanted, greatest(p.share, p.at_least))
                ELSE greatest(0, least(p.wanted, p.share) - p.held) END AS needs
        FROM shares p
    )
    SELECT p.name, p.holder, p.session, p.held, p.fence, p.share,
        (sum(p.lacks) OVER w - p.lacks)::bigint, (sum(p.needs) OVER w - p.needs + p.above)::bigint
    FROM lacks p WINDOW w AS (PARTITION BY p.name)
$$;

-- coord_serve grants free permits of semaphores, each to the first ones in its line, and tells the sessions
-- concerned, but not p_me, which learns by itself. Its caller has locked the semaphores. The settings make one
-- plan for any number of names, which finds the rows by their names, and compares none of them with all others.
CREATE OR REPLACE FUNCTION {schema}.coord_serve(names text[], p_me uuid) RETURNS void LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan SET enable_nestloop = off SET enable_seqscan = off SET jit = off AS $$
DECLARE
    granted uuid[];
    others  uuid[];
BEGIN
    WITH room AS (
        SELECT s.name, s.most, s.most - sum(p.held) AS free
        FROM {schema}.semaphore s JOIN {schema}.permit p ON p.name = s.name WHERE s.name = ANY (names) AND p.name = ANY (names)
        GROUP BY s.name HAVING s.most > sum(p.held) AND bool_or(p.held < p.wanted)
    ), line AS ( -- what is free when it is the turn of a place; nothing, if one before it got less than it wanted
        SELECT p.name, p.holder, p.place, p.held, p.wanted, p.at_least,
            r.free + p.wanted - p.held - sum(p.wanted - p.held) OVER (PARTITION BY p.name ORDER BY p.place) AS free
        FROM room r JOIN {schema}.permit p ON p.name = r.name WHERE p.name = ANY (names) AND p.held < p.wanted AND p.at_least <= r.most
    ), served AS (
        SELECT l.name, l.holder, least(l.wanted, l.held + l.free) AS held FROM line l
        WHERE l.free > 0 AND l.held + l.free >= l.at_least ORDER BY l.name, l.place
    ), numbered AS (
        SELECT s.name, s.holder, s.held, nextval('{schema}.permit_number') AS fence FROM served s
    ), changed AS (
        UPDATE {schema}.permit p SET held = n.held, fence = n.fence, since = clock_timestamp(),
            news = p.news OR p.session IS DISTINCT FROM p_me
        FROM numbered n WHERE p.name = ANY (names) AND p.name = n.name AND p.holder = n.holder
        RETURNING p.session
    )
    SELECT array_agg(c.session) INTO granted FROM changed c;

    WITH changed AS (
        UPDATE {schema}.permit p SET news = true FROM {schema}.coord_standing(names) s
        WHERE p.name = ANY (names) AND p.name = s.name AND p.holder = s.holder AND p.held > 0 AND NOT p.news AND p.session IS DISTINCT FROM p_me
            AND (s.waiting > 0 AND NOT p.knows_waiting OR s.needed > 0 AND s.held > s.share AND NOT p.knows_needed)
        RETURNING p.session
    )
    SELECT array_agg(c.session) INTO others FROM changed c;

    PERFORM pg_notify(o.channel, 'c:permit') FROM {schema}.ordering o
        WHERE o.session = ANY (granted || others) AND o.session IS DISTINCT FROM p_me AND o.channel IS NOT NULL;
    DELETE FROM {schema}.semaphore s WHERE s.name = ANY (names)
        AND s.name NOT IN (SELECT p.name FROM {schema}.permit p WHERE p.name = ANY (names));
END $$;

-- coord_orders replaces orders of permits. The request:
--   session, number  whose request it is, and its number: an older one is refused
--   known            the number of the newest request that was answered
--   settings         the highest version of a setting that the process knows
--   channel          on which the process listens, if it does
--   orders           those to replace: i (their order), holder, name, keep (how many of the permits held before are kept),
--                    wanted, at_least, most, version
--   ended            holders that give everything back
--   all              whether to answer with all that the session has, of the names above the next one
--   after            a name
--   names            how many names it takes at most for each of ended, all and news
-- The answer is {"alive": false}, also if the database has lost what it had answered or a setting, or alive and
--   holdings         what the session has and wants of the semaphores ordered, and of those of which there is news
--   after            the last name of all, if there may be more
--   ending           whether the holders that have ended still have something
--   news             whether there is more news
CREATE OR REPLACE FUNCTION {schema}.coord_orders(q jsonb) RETURNS jsonb LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan SET enable_nestloop = off SET enable_seqscan = off SET jit = off AS $$
DECLARE
    me     uuid := (q->>'session')::uuid;
    ended  uuid[] := ARRAY(SELECT jsonb_array_elements_text(q->'ended')::uuid);
    part   bigint := (q->>'names')::bigint;
    page   text[];
    names  text[];
    answer jsonb;
BEGIN
    PERFORM {schema}.coord_check();
    -- The lock keeps the session from being ended before the commit, and does not keep it from being renewed.
    PERFORM FROM {schema}.session WHERE id = me AND expires_at > clock_timestamp()
        AND EXISTS (SELECT FROM {schema}.pulse p WHERE p.single AND p.settings >= coalesce((q->>'settings')::bigint, 0))
        FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN '{"alive": false}';
    END IF;
    IF (q->>'known')::bigint = 0 THEN
        INSERT INTO {schema}.ordering (session, orders) VALUES (me, 0) ON CONFLICT DO NOTHING;
    END IF;
    UPDATE {schema}.ordering SET orders = (q->>'number')::bigint, channel = q->>'channel'
        WHERE session = me AND orders >= (q->>'known')::bigint AND orders < (q->>'number')::bigint;
    IF NOT FOUND THEN
        RETURN '{"alive": false}';
    END IF;

    page := ARRAY(SELECT DISTINCT p.name FROM {schema}.permit p
        WHERE (q->>'all')::boolean AND p.session = me AND p.name > q->>'after' ORDER BY p.name LIMIT part);
    names := ARRAY(
        SELECT o.name FROM jsonb_to_recordset(q->'orders') AS o (name text)
        UNION (SELECT p.name FROM {schema}.permit p WHERE p.session = me AND p.news LIMIT part)
        UNION (SELECT p.name FROM {schema}.permit p WHERE p.session = me AND cardinality(ended) > 0 AND p.holder = ANY (ended) LIMIT part)
        UNION SELECT unnest(page));
    -- Of rows that are there already all are locked, also those that are not changed.
    INSERT INTO {schema}.semaphore AS s (name, most, version)
        SELECT n.name, coalesce(o.most, 0), coalesce(o.version, -1) FROM unnest(names) AS n (name)
        LEFT JOIN (SELECT DISTINCT ON (o.name) o.* FROM jsonb_to_recordset(q->'orders')
                AS o (i bigint, name text, most bigint, version bigint) ORDER BY o.name, o.version DESC, o.i DESC) o
            ON o.name = n.name
        ORDER BY n.name COLLATE "C"
        ON CONFLICT (name) DO UPDATE SET most = excluded.most, version = excluded.version
        WHERE excluded.version > s.version OR excluded.version = s.version AND excluded.most <> s.most;

    DELETE FROM {schema}.permit p WHERE p.session = me AND cardinality(ended) > 0 AND p.holder = ANY (ended) AND p.name = ANY (names);
    -- IS NOT DISTINCT FROM uses no index, so rows are found by their names, not among all of the session.
    DELETE FROM {schema}.permit p USING jsonb_to_recordset(q->'orders') AS o (holder uuid, name text, wanted bigint)
        WHERE p.name = ANY (names) AND p.name = o.name AND p.holder = o.holder AND p.session IS NOT DISTINCT FROM me AND o.wanted = 0;
    UPDATE {schema}.permit p SET
            held = least(p.held, o.keep), wanted = o.wanted, at_least = o.at_least,
            place = CASE WHEN p.held < p.wanted AND p.held <= o.keep THEN p.place ELSE o.place END,
            since = CASE WHEN p.held < p.wanted AND p.held <= o.keep OR least(p.held, o.keep) > 0 THEN p.since ELSE clock_timestamp() END
        FROM (SELECT o.*, nextval('{schema}.permit_number') AS place
            FROM (SELECT * FROM jsonb_to_recordset(q->'orders')
                AS o (i bigint, holder uuid, name text, keep bigint, wanted bigint, at_least bigint) WHERE o.wanted > 0 ORDER BY o.i) o) o
        WHERE p.name = ANY (names) AND p.name = o.name AND p.holder = o.holder AND p.session IS NOT DISTINCT FROM me;
    INSERT INTO {schema}.permit (name, holder, session, held, wanted, at_least, place, fence, since, news, knows_waiting, knows_needed)
        SELECT o.name, o.holder, me, 0, o.wanted, o.at_least, nextval('{schema}.permit_number'), 0, clock_timestamp(), false, false, false
        FROM (SELECT * FROM jsonb_to_recordset(q->'orders') AS o (i bigint, holder uuid, name text, wanted bigint, at_least bigint)
            WHERE o.wanted > 0 ORDER BY o.i) o
        ON CONFLICT DO NOTHING;
    PERFORM {schema}.coord_serve(names, me);

    WITH mine AS MATERIALIZED (
        SELECT * FROM {schema}.coord_standing(names) s WHERE s.session = me
    ), noted AS (
        UPDATE {schema}.permit p SET news = false, knows_waiting = m.waiting > 0, knows_needed = m.needed > 0 AND m.held > m.share
        FROM mine m WHERE p.name = ANY (names) AND p.name = m.name AND p.holder = m.holder
            AND (p.news OR p.knows_waiting <> (m.waiting > 0) OR p.knows_needed <> (m.needed > 0 AND m.held > m.share))
    )
    SELECT jsonb_build_object('alive', true, 'holdings', jsonb_agg(jsonb_build_object('holder', m.holder, 'name', m.name,
        'held', m.held, 'fence', m.fence, 'share', m.share, 'waiting', m.waiting, 'needed', m.needed)))
        INTO answer FROM mine m;
    RETURN answer || jsonb_build_object(
        'after', CASE WHEN cardinality(page) = part THEN page[part] END,
        'ending', EXISTS (SELECT FROM {schema}.permit p WHERE p.session = me AND cardinality(ended) > 0 AND p.holder = ANY (ended)),
        'news', EXISTS (SELECT FROM {schema}.permit p WHERE p.session = me AND p.news));
END $$;

-- coord_renew is coord_beat for processes that order permits. The request says in addition
--   orders   the number of the newest request to coord_orders that was answered
-- The answer is {"alive": false} also if the database has lost that, and says in addition
--   news     whether coord_orders has news for the session
CREATE OR REPLACE FUNCTION {schema}.coord_renew(q jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    me     uuid := (q->>'session')::uuid;
    answer jsonb;
    news   boolean := false;
BEGIN
    BEGIN
        IF (q->>'orders')::bigint > 0
            AND NOT EXISTS (SELECT FROM {schema}.ordering WHERE session = me AND orders >= (q->>'orders')::bigint) THEN
            RETURN '{"alive": false}';
        END IF;
    EXCEPTION WHEN lock_not_available THEN -- a later heartbeat finds that; no lease may depend on that
    END;
    answer := {schema}.coord_beat(q);
    BEGIN
        news := EXISTS (SELECT FROM {schema}.permit p WHERE p.session = me AND p.news);
    EXCEPTION WHEN lock_not_available THEN -- a later heartbeat says so; no lease may depend on that
    END;
    RETURN answer || jsonb_build_object('news', news);
END $$;

-- coord_nanos returns the time in nanoseconds since 1970.
CREATE OR REPLACE FUNCTION {schema}.coord_nanos() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
$$;

-- coord_draw takes tokens of rates. The request has name, step, slack, tokens and lead of different rates, and the
-- answer name, tokens, ahead (how many tokens were taken that are not there yet, if there is none), wait (nanoseconds until
-- these are there) and next (nanoseconds until there is another token). How many are taken ahead, and how long before their
-- time, is that of coord/internal/limits. The rows are locked in the order of their names, and the clock is read after
-- that: so it does not go back for a rate.
CREATE OR REPLACE FUNCTION {schema}.coord_draw(q jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb;
BEGIN
    PERFORM {schema}.coord_check();
    WITH drawn AS (
        INSERT INTO {schema}.rate AS r (name, due, step, slack, lead, at, drawn)
            SELECT d.name, t.now + t.n * d.step, d.step, d.slack, d.lead, t.now, t.n
            FROM jsonb_to_recordset(q) AS d (name text, step bigint, slack bigint, tokens bigint, lead bigint)
            CROSS JOIN LATERAL (SELECT {schema}.coord_nanos() AS now, least(d.tokens, d.slack / d.step + 1) AS n OFFSET 0) t
            ORDER BY d.name COLLATE "C"
            ON CONFLICT (name) DO UPDATE SET (due, step, slack, lead, at, drawn) = (
                SELECT e.due + e.n * excluded.step, excluded.step, excluded.slack, excluded.lead, greatest(e.now, e.at), e.n FROM (
                    SELECT c.now, c.due, CASE WHEN c.n > 0 THEN c.n WHEN c.at - c.now <= excluded.lead THEN c.m ELSE 0 END AS n,
                        CASE WHEN c.n = 0 AND c.at - c.now <= excluded.lead THEN c.at ELSE c.now END AS at FROM (
                        SELECT b.now, b.due, b.m, greatest(0, least(excluded.drawn, (b.now + excluded.slack + excluded.step - b.due) / excluded.step)) AS n,
                            b.due + (b.m - 1) * excluded.step - excluded.slack AS at FROM (
                            -- If the rate was changed, due may be later than it allows by now.
                            SELECT t.now, t.m, least(greatest(r.due, t.now), t.now + excluded.slack + excluded.step +
                                CASE WHEN r.step = excluded.step AND r.slack = excluded.slack AND r.at <= t.now + t.lead THEN t.lead ELSE 0 END) AS due
                            FROM (SELECT {schema}.coord_nanos() AS now, greatest(10000000000 - excluded.step, 5000000000) AS lead,
                                least(excluded.slack / excluded.step + 1,
                                    greatest(1, least(excluded.drawn, 100000000 / excluded.step), 20000000 / excluded.step)) AS m OFFSET 0) t) b) c) e)
            RETURNING r.name, r.due, r.slack, r.at, r.drawn
    ), timed AS (
        SELECT d.*, t.now FROM drawn d CROSS JOIN LATERAL (SELECT {schema}.coord_nanos() + 0 * d.due AS now OFFSET 0) t
    )
    SELECT jsonb_agg(jsonb_build_object('name', d.name, 'tokens', CASE WHEN d.at <= d.now THEN d.drawn ELSE 0 END,
            'ahead', CASE WHEN d.at > d.now THEN d.drawn ELSE 0 END, 'wait', d.at - d.now, 'next', greatest(0, d.due - d.slack - d.now)))
        INTO answer FROM timed d;
    RETURN answer;
END $$;
