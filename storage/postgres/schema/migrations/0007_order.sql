-- Tasks that share an ordering key run one at a time. The turn of a row is in the column shard,
-- above the lower 16 bits, which are the shard: 0 is a task that takes no part in an order, 1 is
-- one that is behind another of its key, and 2 is the head of its key. A row that is behind is not
-- queued.
--
-- It has no column of its own because programs of the version before write to the table ended what
-- the table task has, column by column, without naming the columns, and a column cannot be put in
-- the middle of a partitioned table without reading all of it. These programs read only the lower
-- 16 bits of the column shard, and never change it.

-- Whether nodes that give ordering keys their heads have been started: else nobody would run what
-- the function add puts behind.
alter table {schema}.type_policy add ordered boolean not null default false;

create unique index task_head on {schema}.task (ordering_key) where shard >> 16 = 2;
create index task_behind on {schema}.task (ordering_key, ready_at, seq) where shard >> 16 = 1;

-- For programs of the version before: what is behind does not run and is not queued.
create function {schema}.keep_behind() returns trigger language plpgsql as $$
begin
	if new.state = 3 then
		return null;
	end if;
	new.queued := false;
	return new;
end $$;

create trigger keep_behind before update on {schema}.task for each row
	when (new.shard >> 16 = 1 and (new.queued or new.state = 3)) execute function {schema}.keep_behind();

-- A row of a request is behind, and is not queued, if it has an ordering key.
create or replace function {schema}.row_of(id uuid, type text, payload bytea, key text, ordering_key text, priority integer,
	at timestamptz, expires_at timestamptz, headers jsonb, p {schema}.type_policy) returns {schema}.task language plpgsql volatile as $$
declare
	r      {schema}.task;
	at_us  bigint := {schema}.microseconds(at);
	now_us bigint := {schema}.microseconds(clock_timestamp());
	until  bigint := least({schema}.microseconds(expires_at), now_us + nullif(p.total_timeout, 0));
begin
	r.id := id;
	r.version := 1;
	r.seq := nextval('{task_seq}');
	r.state := case when at_us > now_us then 1 else 2 end;
	r.created_at := now_us;
	r.updated_at := now_us;
	r.ready_at := coalesce(at_us, now_us);
	r.due_at := least(case when r.state = 1 then at_us else now_us + nullif(p.queue_timeout, 0) end, until);
	r.due_state := case when r.due_at is not null then r.state end;
	r.next_event_at := coalesce(r.due_at, {none});
	r.expires_at := coalesce(until, {none});
	r.started_at := {none};
	r.attempt := 0;
	r.crashes := 0;
	r.priority := coalesce(priority, p.priority);
	r.type := convert_to(type, 'UTF8');
	r.grp := {schema}.group_of(p.keyed, payload, headers, key, ordering_key);
	r.key := convert_to(nullif(key, ''), 'UTF8');
	r.ordering_key := convert_to(nullif(ordering_key, ''), 'UTF8');
	r.shard := case when r.ordering_key is null then {schema}.shard_of(id) else {schema}.shard_of(r.ordering_key) end;
	if p.ordered and r.ordering_key is not null then
		r.shard := r.shard + 65536; -- a node makes it the head when the transaction has committed
	end if;
	r.queued := r.state = 2 and r.shard >> 16 = 0;
	r.headers := {schema}.headers_as_bytes(headers);
	r.payload := {schema}.stored(payload);
	return r;
end $$;

-- The ids of tasks that share an ordering key are of its shard.
create or replace function {schema}.fresh_id(type text, key text, ordering_key text) returns uuid language plpgsql volatile as $$
declare
	shards bytea := (select h.here from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
	id     uuid  := {schema}.new_id();
	shard  integer;
begin
	if ordering_key <> '' then
		return {schema}.id_in(id, {schema}.shard_of(convert_to(ordering_key, 'UTF8')));
	elsif shards is null and key <> '' then
		return {schema}.id_in(id, {schema}.shard_of(convert_to(type, 'UTF8') || e'\\x00' || convert_to(key, 'UTF8')));
	elsif shards is null or get_bit(shards, {schema}.shard_of(id)) = 1 then
		return id;
	end if;
	if shards = decode(repeat('00', {shards} / 8), 'hex') then
		raise exception 'this database holds none of the tasks' using errcode = '0A000', hint = 'Add the task in another one, or move shards to this one.';
	end if;
	select n into shard from generate_series(0, {shards} - 1) n where get_bit(shards, n) = 1 order by random() limit 1;
	return {schema}.id_in(id, shard);
end $$;

-- check_home refuses what several databases that hold the tasks could not keep apart.
create or replace function {schema}.check_home(key text, ordering_key text, id uuid) returns void language plpgsql stable as $$
declare
	shards bytea := (select h.here from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
begin
	if shards is null then
		return;
	elsif key <> '' then
		raise exception 'this database holds only some of the tasks, and cannot see whether another has one of this key'
			using errcode = '0A000', hint = 'Leave the key out, or submit the task by the engine.';
	elsif ordering_key <> '' then
		if get_bit(shards, {schema}.shard_of(convert_to(ordering_key, 'UTF8'))) = 0 then
			raise exception 'the tasks of this ordering key are in another database'
				using errcode = '0A000', hint = 'Add the task there, or submit it by the engine.';
		elsif {schema}.shard_of(convert_to(ordering_key, 'UTF8')) <> {schema}.shard_of(id) then
			raise exception 'the id and the ordering key of the task are of different shards, which may be in different databases'
				using errcode = '0A000', hint = 'Leave the id out, or submit the task by the engine.';
		end if;
	elsif get_bit(shards, {schema}.shard_of(id)) = 0 then
		raise exception 'the task of this id belongs to another database'
			using errcode = '0A000', hint = 'Leave the id out, or submit the task by the engine.';
	end if;
end $$;

-- The nodes are told the ordering key of a task that is behind.
create or replace function {schema}.add_bytes(type text, payload bytea default null, key text default null, ordering_key text default null,
	priority integer default null, at timestamptz default null, expires_at timestamptz default null, headers jsonb default null,
	id uuid default null, wake boolean default true) returns {schema}.receipt language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
	fresh   constant boolean := id is null;
	p       {schema}.type_policy;
	problem text;
	holder  uuid;
	r       {schema}.task;
begin
	select * into p from {schema}.type_policy t where t.type in (convert_to(type, 'UTF8'), '') order by t.type desc limit 1;
	headers := nullif(headers, 'null');
	problem := {schema}.problem_of(type, payload, key, ordering_key, priority, at, expires_at, headers, p.max_payload);
	if id = '00000000-0000-0000-0000-000000000000' then
		problem := 'id is zero: leave it out for a new one';
	elsif id < '00000000-0001-0000-0000-000000000000' then
		problem := format('id %s is reserved: ids that begin with 00000000-0000 belong to the engine', id);
	end if;
	if problem is not null then
		raise exception using errcode = '22023', message = problem;
	end if;
	lock table {schema}.task in row exclusive mode; -- from now on this database holds what it holds
	if fresh then
		id := {schema}.fresh_id(type, key, ordering_key);
	else
		perform {schema}.check_isolation();
	end if;
	perform {schema}.check_home(key, ordering_key, id);
	r := {schema}.row_of(id, type, payload, key, ordering_key, priority, at, expires_at, headers, p);
	if r.key is not null then
		holder := {schema}.take_key(r.type, r.key, id);
		if holder <> id then
			if not fresh and {schema}.is_taken(id) then -- that says more
				holder := id;
			end if;
			return (holder, false);
		end if;
	end if;
	if not {schema}.put(r, fresh) then
		return (id, false);
	end if;
	if wake and r.queued then -- of equal ones in a transaction one is sent
		perform pg_notify({channel}, 'w:' || r.shard);
	elsif wake and r.shard >> 16 = 1 and r.state = 2 then
		perform pg_notify({channel}, format('k:%s:%s:%s', r.shard & 65535, encode(r.type, 'base64'), encode(r.ordering_key, 'base64')));
	end if;
	return (id, true);
end $$;

create or replace view {schema}.tasks as
select t.id, {schema}.readable(t.type) as type,
	(array['waiting', 'submitted', 'processing', 'done', 'error', 'failed', 'cancelled'])[t.state] as state,
	t.priority, {schema}.readable(t.key) as key, {schema}.readable(t.ordering_key) as ordering_key,
	{schema}.moment(t.created_at) as created_at, {schema}.moment(t.ready_at) as ready_at,
	{schema}.moment(t.next_event_at) as next_event_at, {schema}.moment(t.expires_at) as expires_at,
	{schema}.moment(t.started_at) as started_at, {schema}.moment(t.updated_at) as updated_at,
	t.attempt, t.crashes, {schema}.readable(t.error) as error,
	{schema}.readable(t.payload) as payload, {schema}.readable(t.result) as result,
	t.owner, t.shard & 65535 as shard, t.version, t.seq, t.tombstone is true as tombstone,
	t.shard >> 16 = 1 and t.state not in (4, 6, 7) as waits_behind
from (
	select id, type, state, priority, key, ordering_key, created_at, ready_at, next_event_at, expires_at, started_at, updated_at,
		attempt, crashes, error, payload, result, owner, shard, version, seq, tombstone from {schema}.task
	union all
	select id, type, state, priority, key, ordering_key, created_at, ready_at, next_event_at, expires_at, started_at, updated_at,
		attempt, crashes, error, payload, result, owner, shard, version, seq, tombstone from {schema}.ended) t;
