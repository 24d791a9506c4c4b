-- Times are microseconds since 1970, UTC; the one of year 1 is none. Names and keys are
-- bytes, which sort as they are compared. The view tasks shows both to people.

create sequence {schema}.task_seq;

-- Tasks that are not finished. A grab changes no column of an index.
create table {schema}.task (
	id            uuid     not null,
	owner         uuid,
	version       bigint   not null,
	seq           bigint   not null,
	created_at    bigint   not null,
	ready_at      bigint   not null,
	next_event_at bigint   not null,
	expires_at    bigint   not null,
	started_at    bigint   not null,
	updated_at    bigint   not null,
	due_at        bigint,   -- next_event_at of a row in due_state, if it has one
	kind          bigint,   -- the kind of the error of a row in error, less 2^63; null for other rows
	kind_at       bigint,   -- updated_at of such a row
	attempt       integer  not null,
	crashes       integer  not null,
	shard         smallint not null,
	turn          smallint not null, -- 1 is behind another task of its ordering key, 2 is its head, 0 takes no part in an order
	state         smallint not null,
	priority      smallint not null, -- with which it runs
	boost         smallint, -- by how much that is above its own, which a head inherits; null is 0
	due_state     smallint, -- state, if somebody looks for rows in it by due_at
	queued        boolean  not null, -- submitted and not behind, or grabbed since
	inherits      boolean,  -- true if it lends its priority while it is behind, and inherits as the head; else null
	tombstone     boolean,  -- true if what the task carried was removed and its key is remembered; else null
	type          bytea    not null,
	grp           bytea    not null,
	key           bytea,
	ordering_key  bytea,
	node          bytea,    -- that grabbed it last, by its name
	headers       bytea,
	progress      bytea,
	error         bytea,
	history       bytea,
	awaits        bytea,    -- the names of the signals that it waits for; null if it waits for none
	woken_by      smallint, -- what ended its newest wait for a signal: 1 a signal, 2 the time, 3 a user; null if nothing, or if an attempt has done its work since
	parent        bytea,    -- the task that learns of its end: the id of that, the number of this child, and the name of the children that it is one of
	signals       bytea,    -- how long it may be ready after a wait, the signal that ended the newest wait, those that it keeps, and the ids of earlier ones
	search        bigint[], -- the hashes of the values of its search attributes, less 2^63; null if it has none
	children      bytea,    -- how many children it has by their names, how many of them have ended and how, and which; null if it has none
	checkpoint    bytea,
	payload       bytea,
	result        bytea
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Payloads are seldom worth the time to compress them.
alter table {schema}.task alter payload set storage external, alter checkpoint set storage external, alter signals set storage external, alter children set storage external, alter result set storage external;

create unique index task_pkey on {schema}.task (id);
alter table {schema}.task add primary key using index task_pkey;
create index task_ready on {schema}.task (type, grp, priority, ready_at, seq) where queued;
create index task_due on {schema}.task (due_state, due_at, id) where due_state is not null;

-- Tasks in error, by the kinds of their errors, and for lists. No index has a column that a grab changes.
create index task_kind on {schema}.task (kind, id) where kind is not null;
create index task_kind_at on {schema}.task (kind, type, kind_at, id) where kind is not null;
create index task_error on {schema}.task (id) where due_state = 5;
create index task_error_type on {schema}.task (type, id) where due_state = 5;

-- Workflows, for lists.
create index task_workflow on {schema}.task (id) where type = 'taskengine.workflow'::bytea;

-- Tasks with search attributes, by the hashes of their values.
create index task_search on {schema}.task using gin (search) where search is not null;

-- The head of each ordering key, the seats behind it, and the rows there that lend their priority. A task that waits for its
-- time has the due_state 1. It is in the condition because no column is that a grab changes.
create unique index task_head on {schema}.task (ordering_key) where turn = 2;
create index task_behind on {schema}.task (ordering_key, ready_at, seq) where turn = 1;
create index task_lends on {schema}.task (ordering_key, priority) where turn = 1 and inherits and due_state is distinct from 1;

-- Tasks that are finished, by how long they are kept (in seconds, rounded up; 0 is for ever; negative for those that ended
-- long before the time in their id) and by when they ended, which is else never before that time.
create table {schema}.ended (
	like {schema}.task,
	ended_at bigint  not null,
	keep     integer not null
) partition by list (keep);
alter table {schema}.ended add primary key (id, ended_at, keep);
create index ended_workflow on {schema}.ended (id) where type = 'taskengine.workflow'::bytea;
create index ended_search on {schema}.ended using gin (search) where search is not null;

-- Tasks that have ended and whose own partition of ended is missing: nothing that ends a task makes tables, so that nobody
-- waits for them, and a task can end while nobody may make tables. The program makes those that it needs, usually before,
-- and moves these rows to them.
create table {schema}.ended_2147483646_0 (like {schema}.ended including defaults including storage);
alter table {schema}.ended attach partition {schema}.ended_2147483646_0 for values in (2147483646);

-- Who has a unique key. It is unique among the tasks of its type and ordering key.
create table {schema}.key (
	type         bytea not null,
	ordering_key bytea not null, -- empty for a task without one
	key          bytea not null,
	id           uuid  not null,
	primary key (type, key, ordering_key)
);

create table {schema}.engine_setting (
	name  bytea primary key,
	value bytea not null
);

-- Logs of tasks in pieces, where nodes keep them here. total is how many bytes the log had with this piece, as if none had been removed.
create table {schema}.task_log (
	task  uuid   not null,
	at    bigint not null,
	mark  bigint not null, -- of who wrote it
	total bigint not null,
	data  bytea  not null,
	primary key (task, at)
);
create index task_log_at on {schema}.task_log (at, task);

-- How many bytes all logs have. Who changes logs locks this row first.
create table {schema}.task_log_size (
	one   boolean primary key default true check (one),
	bytes bigint  not null
) with (fillfactor = 10);
insert into {schema}.task_log_size (bytes) values (0);

-- Which shards of the tasks are in this database, by their ids, where several hold the
-- tasks of one engine: a bit for each. All of them, if there is no row. A constraint of the
-- table task keeps out what is neither here nor coming.
create table {schema}.home (
	one     boolean primary key default true check (one),
	here    bytea not null,
	coming  bytea not null, -- from another database
	leaving bytea not null, -- held by no database
	to_name text  not null  -- the database that they are leaving for
);

-- Tasks that are leaving. It has the columns of task.
create table {schema}.packed (
	like {schema}.task,
	primary key (id)
);

-- How many tasks there are, without reading them. Each statement that adds, changes or
-- removes rows of the tables task and ended notes here how many more or fewer there are of a
-- type in a state: in its own transaction, and without waiting for anybody. The sum of the
-- notes is what there is; see Fold in Go. Triggers do that, so that it is right whoever
-- changes the tables: the program, the function add, and people.
create table {schema}.tally (
	note   bigint   generated always as identity primary key, -- replication needs a key
	type   bytea    not null,
	state  smallint not null,
	keep   integer,          -- of rows in ended: in which of the tables below it they are,
	since  bigint,           -- as its name has it
	kind   bigint,           -- of rows in error: the column kind of them,
	node   bytea,            -- and node
	n      bigint   not null,
	folded boolean  not null -- whether it is the sum of notes that were deleted
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1,
	autovacuum_vacuum_cost_delay = 0);

-- What the nodes say of types, for the functions. The row of the type '' is for all
-- that have none of their own. Times are microseconds, 0 is none.
create table {schema}.type_policy (
	type          bytea   primary key,
	priority      integer not null,
	max_payload   bigint  not null, -- bytes
	max_result    bigint  not null, -- bytes
	queue_timeout bigint  not null,
	total_timeout bigint  not null,
	keyed         jsonb   not null, -- [{"limit": NAME, "path": ["payload", MEMBER, ...]}, ...]
	uniq          jsonb   not null, -- what a request does whose key is taken: {"on_conflict": "keep", "by": [["payload", MEMBER, ...], ...]}, or reject, replace, debounce or throttle
	keep_done     bigint  not null, -- 0 is a task that is not kept, -1 one that is kept for ever
	remember      bigint  not null, -- for how long the key of a task is taken that is done, if that is longer than keep_done
	max_lateness  bigint  not null, -- how far in the past the time of a task may lie that is added; 0 is no limit
	inherits      boolean not null, -- whether tasks behind a head lend their priority to it
	searched      boolean not null  -- whether it has search attributes: the functions do not read their values
);
insert into {schema}.type_policy (type, priority, max_payload, max_result, queue_timeout, total_timeout, keyed, uniq, keep_done, remember, max_lateness, inherits, searched)
values ('', 5, 1048576, 1048576, 0, 0, '[]', '{}', 604800000000, 0, 0, false, false);

-- The answer to a request: the task, or the one that has its id or key already; and what the request has done: created,
-- existing, replaced or already_done.
create type {schema}.receipt as (id uuid, created boolean, outcome text);
