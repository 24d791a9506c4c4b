-- The clock of the database may be set back. A session that was renewed before that would then
-- last for as much longer, though its process is dead.
ALTER TABLE {schema}.session ADD COLUMN lasts interval; -- the lease; NULL until the next renewal

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
