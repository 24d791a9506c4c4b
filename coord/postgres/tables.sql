-- A session is what a process has to prove that it lives: it holds members, leaderships
-- and permits for as long as it renews its lease. Only the database's clock counts. A
-- session ends by the removal of its row, together with all that it holds: then its
-- process, should it wake up again, finds nothing to renew.
CREATE TABLE {schema}.session (
    id         uuid PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    beats      bigint NOT NULL,           -- number of the newest coord_beat
    lasts      interval NOT NULL          -- the lease: the clock of the database may be set back
) WITH (fillfactor = 50);

CREATE TABLE {schema}.member (
    incarnation uuid PRIMARY KEY,
    session     uuid NOT NULL,
    name        text NOT NULL,
    handlers    text[] NOT NULL,
    selectors   text[] NOT NULL,
    labels      jsonb NOT NULL,
    draining    boolean NOT NULL,
    address     text NOT NULL,            -- the URL of its API for other nodes; '': none
    version     text NOT NULL,            -- of its program
    joined_at   timestamptz NOT NULL,
    died_at     timestamptz               -- kept for an hour, so that people can see it
);

CREATE TABLE {schema}.leader (
    role    text PRIMARY KEY,
    session uuid,                         -- NULL: nobody
    term    bigint NOT NULL,
    since   timestamptz NOT NULL
);

CREATE TABLE {schema}.setting (
    name    text NOT NULL,
    scope   text NOT NULL,                -- '': for all that have none of their own
    value   bytea NOT NULL,
    version bigint NOT NULL DEFAULT 1,    -- by which it is swapped
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
INSERT INTO {schema}.pulse (single, members, settings) VALUES (true, 0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- The newest request of orders of each session that has made one. It has a row of its own: the transaction of a request
-- locks it until its end, and the heartbeats of the session do not wait for that.
CREATE TABLE {schema}.ordering (
    session uuid PRIMARY KEY,
    orders  bigint NOT NULL,              -- the number of the request
    channel text                          -- on which the process listens; NULL: on none
) WITH (fillfactor = 50);

-- A semaphore's row is there while permits of it are held or wanted. It is locked by whoever changes
-- anything of its permits; of several, in the order of their names.
CREATE TABLE {schema}.semaphore (
    name    text COLLATE "C" PRIMARY KEY,
    most    bigint NOT NULL,
    version bigint NOT NULL               -- of most
) WITH (fillfactor = 50);

-- What a holder has and wants of a semaphore. It waits if held < wanted.
CREATE TABLE {schema}.permit (
    name         text COLLATE "C" NOT NULL,
    holder       uuid NOT NULL,
    session      uuid NOT NULL,
    held         bigint NOT NULL,
    wanted       bigint NOT NULL,         -- more than 0
    at_least     bigint NOT NULL,         -- from 1 to wanted
    place        bigint NOT NULL,         -- in the line of those that wait
    fence        bigint NOT NULL,         -- of the latest grant
    since        timestamptz NOT NULL,    -- the latest grant, or the beginning of the wait if there was none
    news         boolean NOT NULL,        -- its session is to get it
    knows_waiting boolean NOT NULL,       -- the last news of its session said that others wait,
    knows_needed boolean NOT NULL,        -- and that they need some of what it has above its share
    PRIMARY KEY (name, holder)
) WITH (fillfactor = 50);
CREATE INDEX permit_session ON {schema}.permit (session);
CREATE INDEX permit_news ON {schema}.permit (session) WHERE news;

-- The numbers of places and grants. They never start again, but for a failover to a replica that lacks the last commits.
CREATE SEQUENCE {schema}.permit_number;

-- A rate that has been used lately, by the generic cell rate algorithm. Times are nanoseconds since 1970.
CREATE TABLE {schema}.rate (
    name  text COLLATE "C" PRIMARY KEY,
    due   bigint NOT NULL,                -- when all of its burst is there again
    step  bigint NOT NULL,                -- between two tokens at the full rate
    slack bigint NOT NULL,                -- by how much a burst may be early
    lead  bigint NOT NULL,                -- how long before its time the latest draw may have got a token
    at    bigint NOT NULL,                -- when the tokens of the latest draw are there,
    drawn bigint NOT NULL                 -- and how many it got
) WITH (fillfactor = 50);
