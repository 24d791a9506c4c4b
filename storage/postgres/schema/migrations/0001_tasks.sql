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
	shard         integer  not null,
	attempt       integer  not null,
	crashes       integer  not null,
	state         smallint not null,
	priority      smallint not null,
	due_state     smallint, -- state, if somebody looks for rows in it by due_at
	queued        boolean  not null, -- submitted, or grabbed since
	tombstone     boolean, -- true if what the task carried was removed and its key is remembered; else null
	type          bytea    not null,
	grp           bytea    not null,
	key           bytea,
	ordering_key  bytea,
	headers       bytea,
	progress      bytea,
	error         bytea,
	history       bytea,
	checkpoint    bytea,
	payload       bytea,
	result        bytea
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Payloads are seldom worth the time to compress them.
alter table {schema}.task alter payload set storage external, alter checkpoint set storage external, alter result set storage external;

create unique index task_pkey on {schema}.task (id);
alter table {schema}.task add primary key using index task_pkey;
create index task_ready on {schema}.task (type, grp, priority, ready_at, seq) where queued;
create index task_due on {schema}.task (due_state, due_at, id) where due_state is not null;

-- Tasks that are finished, by how long they are kept (in seconds, rounded up; 0 is for
-- ever) and by when they ended, which is never before the time in their id.
create table {schema}.ended (
	like {schema}.task,
	ended_at bigint  not null,
	keep     integer not null
) partition by list (keep);
alter table {schema}.ended add primary key (id, ended_at, keep);

-- Who has a unique key.
create table {schema}.key (
	type bytea not null,
	key  bytea not null,
	id   uuid  not null,
	primary key (type, key)
);

create table {schema}.engine_setting (
	name  bytea primary key,
	value bytea not null
);

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
