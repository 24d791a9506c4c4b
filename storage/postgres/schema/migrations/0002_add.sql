-- Tasks are added from SQL by the functions add and add_bytes, with the checks that the
-- engine makes and in the transaction of whoever calls them. The view tasks shows tasks to
-- people. Whoever adds needs USAGE on the schema and EXECUTE on the functions, and no right
-- on any table.

-- What the nodes say of types, for those who add tasks. The row of the type '' is for all
-- that have none of their own. Times are microseconds, 0 is none.
create table {schema}.type_policy (
	type          bytea   primary key,
	priority      integer not null,
	max_payload   bigint  not null,
	queue_timeout bigint  not null,
	total_timeout bigint  not null,
	keyed         jsonb   not null  -- [{"limit": NAME, "path": ["payload", MEMBER, ...]}, ...]
);
insert into {schema}.type_policy values ('', 5, 1048576, 0, 0, '[]');

-- The answer to a request: the task, or the one that has its id or key already.
create type {schema}.receipt as (id uuid, created boolean);

create function {schema}.microseconds(t timestamptz) returns bigint language sql stable as $$
select (extract(epoch from t) * 1000000)::bigint
$$;

-- A UUID of version 7 (RFC 9562), whose twelve bits after the millisecond hold the fraction
-- of it.
create function {schema}.new_id() returns uuid language plpgsql volatile as $$
declare
	us   bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
	frac integer := (us % 1000) * 4096 / 1000;
	id   bytea := uuid_send(gen_random_uuid());
begin
	id := overlay(id placing substring(int8send(us / 1000) from 3) from 1);
	return encode(set_byte(set_byte(id, 6, 112 + (frac >> 8)), 7, frac & 255), 'hex')::uuid;
end $$;

-- The shard of an id, as the engine has it.
create function {schema}.shard_of(id uuid) returns integer language sql immutable as $$
select get_byte(b, 3) # get_byte(b, 7) # get_byte(b, 15) from uuid_send(id) b
$$;

-- An id like this one, of a given shard.
create function {schema}.id_in(id uuid, shard integer) returns uuid language sql immutable as $$
select encode(set_byte(b, 15, get_byte(b, 3) # get_byte(b, 7) # shard), 'hex')::uuid from uuid_send(id) b
$$;

-- The time in an id of version 7, and the beginning of time for others.
create function {schema}.made_at(id uuid) returns bigint language plpgsql immutable as $$
declare
	b bytea := uuid_send(id);
begin
	if get_byte(b, 6) >> 4 <> 7 or get_byte(b, 8) >> 6 <> 2 then
		return -9223372036854775808;
	end if;
	return ('x0000' || encode(substring(b from 1 for 6), 'hex'))::bit(64)::bigint * 1000;
end $$;

-- The shard of a name: FNV-1a of 32 bits, as the engine has it.
create function {schema}.shard_of(name bytea) returns integer language plpgsql immutable as $$
declare
	h bigint := 2166136261;
begin
	for i in 0 .. length(name) - 1 loop
		h := ((h # get_byte(name, i)) * 16777619) & 4294967295;
	end loop;
	return h % {shards};
end $$;

-- A member of a JSON document as text: '' if it is not there.
create function {schema}.member_of(document json, path text[]) returns text language plpgsql immutable as $$
declare
	name text;
begin
	foreach name in array path loop
		if json_typeof(document) = 'null' then
			return '';
		elsif json_typeof(document) <> 'object' then
			raise exception 'it is not a JSON object' using errcode = '22023';
		end if;
		document := document -> name;
		if document is null then
			return '';
		end if;
	end loop;
	if json_typeof(document) in ('object', 'array') then
		raise exception 'it is neither text, a number nor a boolean' using errcode = '22023';
	end if;
	return coalesce(document #>> '{}', '');
end $$;

-- The values that the limits of a type look at, packed as the engine packs them.
create function {schema}.group_of(keyed jsonb, payload bytea, headers jsonb, key text, ordering_key text) returns bytea language plpgsql immutable as $$
declare
	k      jsonb;
	path   text[];
	value  text;
	packed text;
begin
	for k in select e from jsonb_array_elements(keyed) with ordinality as a (e, n) order by n loop
		path := array(select e from jsonb_array_elements_text(k -> 'path') with ordinality as a (e, n) order by n);
		case path[1]
		when 'key' then
			value := key;
		when 'ordering_key' then
			value := ordering_key;
		when 'headers' then
			value := headers ->> array_to_string(path[2:], '.');
		else
			begin
				value := {schema}.member_of(convert_from(coalesce(payload, ''), 'UTF8')::json, path[2:]);
			exception when data_exception then
				raise exception using errcode = '22023',
					message = format('limit %s needs %s of the payload: %s', k ->> 'limit', array_to_string(path[2:], '.'), sqlerrm);
			end;
		end case;
		value := replace(replace(coalesce(value, ''), e'\x1e', e'\x1e0'), e'\x1f', e'\x1e1');
		packed := case when packed is null then value else packed || e'\x1f' || value end;
	end loop;
	if octet_length(convert_to(packed, 'UTF8')) > 1000 then
		raise exception using errcode = '22023',
			message = format('the values that its limits look at have %s bytes, of 1000 allowed', octet_length(convert_to(packed, 'UTF8')));
	end if;
	return convert_to(coalesce(packed, ''), 'UTF8');
end $$;

-- Headers as rows keep them: sorted, each text after its length.
create function {schema}.headers_as_bytes(headers jsonb) returns bytea language sql immutable as $$
select string_agg(int4send(length(name)) || name || int4send(length(value)) || value, '' order by name)
from (select convert_to(h.key, 'UTF8') as name, convert_to(h.value, 'UTF8') as value from jsonb_each_text(headers) h) h
$$;

-- What the store has for data: nodes take what begins with these four bytes for encoded data (package codec), so data
-- that begins so itself is put into an envelope.
create function {schema}.stored(b bytea) returns bytea language sql immutable as $$
	select case when substring(b from 1 for 4) = '\x00746501' then '\x0074650100'::bytea || b else nullif(b, '') end
$$;

-- What is wrong with a request, in the words of the engine; null if nothing is.
create function {schema}.problem_of(type text, payload bytea, key text, ordering_key text, priority integer,
	at timestamptz, expires_at timestamptz, headers jsonb, max_payload bigint) returns text language plpgsql stable as $$
declare
	type_bytes    integer := octet_length(convert_to(type, 'UTF8'));
	key_bytes     integer := octet_length(convert_to(key, 'UTF8'));
	ordering      integer := octet_length(convert_to(ordering_key, 'UTF8'));
	header_bytes  bigint;
	begin_of_time constant timestamptz := '1970-01-01 00:00:00 UTC';
	end_of_time   constant timestamptz := '9999-12-31 23:59:59.999999 UTC';
begin
	if headers is not null and jsonb_typeof(headers) <> 'null' then
		if jsonb_typeof(headers) <> 'object' or exists (select from jsonb_each(headers) h where jsonb_typeof(h.value) <> 'string') then
			return 'headers must be a JSON object whose members are texts';
		end if;
		select sum(octet_length(convert_to(h.key, 'UTF8')) + octet_length(convert_to(h.value, 'UTF8'))) into header_bytes from jsonb_each_text(headers) h;
	end if;
	return case
		when coalesce(type, '') = '' then 'type is missing'
		when type_bytes > 200 then format('type has %s bytes, of 200 allowed', type_bytes)
		when type ~ e'[\\x01-\\x1f\\x7f]' then 'type has characters that cannot be printed'
		when starts_with(type, 'taskengine.') then format('type %s is reserved: types that begin with taskengine. belong to the engine', left(type, 80))
		when key = '' then 'key is empty: leave it out if there is none'
		when key_bytes > 500 then format('key has %s bytes, of 500 allowed', key_bytes)
		when ordering_key = '' then 'ordering key is empty: leave it out if there is none'
		when ordering > 500 then format('ordering key has %s bytes, of 500 allowed', ordering)
		when length(payload) > max_payload then
			format('payload has %s bytes, of %s allowed by max_payload of type %s', length(payload), max_payload, type)
		when header_bytes > 16384 then format('headers have %s bytes, of 16384 allowed', header_bytes)
		when priority not between 0 and 9 then format('priority is %s, of 0 (sooner) to 9 (later)', priority)
		when at not between begin_of_time and end_of_time or expires_at not between begin_of_time and end_of_time then
			'times must lie between the years 1970 and 9999'
	end;
end $$;

-- What the engine asks for in transactions that others have begun.
create function {schema}.check_isolation() returns void language plpgsql stable as $$
begin
	if current_setting('transaction_isolation') <> 'read committed' then
		raise exception 'a task whose id is given, or that an engine adds, cannot be added at the isolation level %', current_setting('transaction_isolation')
			using errcode = '25001', hint = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED: at others it does not see which ids were used since it began.';
	end if;
end $$;

-- take_key has a key belong to the task with this id, and returns who has it then.
create function {schema}.take_key(p_type bytea, p_key bytea, p_id uuid) returns uuid language plpgsql volatile as $$
declare
	holder uuid;
begin
	loop
		insert into {schema}.key (type, key, id) values (p_type, p_key, p_id) on conflict do nothing;
		if found then
			return p_id;
		end if;
		select k.id into holder from {schema}.key k where k.type = p_type and k.key = p_key;
		if found then
			return holder;
		end if; -- else it was given back meanwhile
	end loop;
end $$;

-- is_taken reports whether there is a task with this id.
create function {schema}.is_taken(p_id uuid) returns boolean language sql volatile as $$
select exists (select from {schema}.task t where t.id = p_id)
	or exists (select from {schema}.ended e where e.id = p_id and e.ended_at >= {schema}.made_at(p_id))
$$;

-- put adds a row unless its id is taken, and reports whether it did. An id that was made
-- just now is not.
create function {schema}.put(r {schema}.task, fresh boolean) returns boolean language plpgsql volatile as $$
begin
	insert into {schema}.task select r.* on conflict (id) do nothing;
	if found and not fresh then -- only now nobody else can add one of this id
		delete from {schema}.task t where t.id = r.id
			and exists (select from {schema}.ended e where e.id = r.id and e.ended_at >= {schema}.made_at(r.id));
		if not found then
			return true;
		end if;
	elsif found then
		return true;
	end if;
	delete from {schema}.key k where k.type = r.type and k.key = r.key and k.id = r.id
		and not exists (select from {schema}.task t where t.id = r.id and t.key = r.key and t.type = r.type)
		and not exists (select from {schema}.ended e where e.id = r.id and e.key = r.key and e.type = r.type);
	return false;
end $$;

-- fresh_id returns an id for a task. Where several databases hold the tasks, it is of a shard
-- that is in this one.
create function {schema}.fresh_id(type text, key text, ordering_key text) returns uuid language plpgsql volatile as $$
declare
	shards bytea := (select h.here from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
	id     uuid  := {schema}.new_id();
	shard  integer;
begin
	if shards is null and ordering_key <> '' then
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
create function {schema}.check_home(key text, ordering_key text, id uuid) returns void language plpgsql stable as $$
declare
	shards bytea := (select h.here from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
begin
	if shards is null then
		return;
	elsif key <> '' or ordering_key <> '' then
		raise exception 'this database holds only some of the tasks, and cannot see whether another has one of this key'
			using errcode = '0A000', hint = 'Leave key and ordering_key out, or submit the task by the engine.';
	elsif get_bit(shards, {schema}.shard_of(id)) = 0 then
		raise exception 'the task of this id belongs to another database'
			using errcode = '0A000', hint = 'Leave the id out, or submit the task by the engine.';
	end if;
end $$;

-- row_of returns the row of a valid request.
create function {schema}.row_of(id uuid, type text, payload bytea, key text, ordering_key text, priority integer,
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
	r.queued := r.state = 2;
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
	r.headers := {schema}.headers_as_bytes(headers);
	r.payload := {schema}.stored(payload);
	return r;
end $$;

-- add_bytes adds a task: it is there, and runs, if and only if the transaction commits.
--   type          what is to be done; the only argument that is needed
--   payload       as it is given to the handler
--   key           unique among the type's tasks while they are kept
--   ordering_key  recorded with the task
--   priority      0 (sooner) to 9 (later); null for the type's
--   at            not before; null for now
--   expires_at    too late from then on; null for never
--   headers       a JSON object whose members are texts
--   id            chosen by the caller to make the request repeatable; null for a new one
--   wake          whether to tell the nodes at the commit; else they find it within about a
--                 second, and transactions that tell do not wait for each other to commit
create function {schema}.add_bytes(type text, payload bytea default null, key text default null, ordering_key text default null,
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
	if wake and r.state = 2 then -- of equal ones in a transaction one is sent
		perform pg_notify({channel}, 'w:' || r.shard);
	end if;
	return (id, true);
end $$;

-- add is add_bytes for a payload in JSON.
create function {schema}.add(type text, payload jsonb default null, key text default null, ordering_key text default null,
	priority integer default null, at timestamptz default null, expires_at timestamptz default null, headers jsonb default null,
	id uuid default null, wake boolean default true) returns {schema}.receipt language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	return {schema}.add_bytes(type, convert_to(payload::text, 'UTF8'), key, ordering_key, priority, at, expires_at, headers, id, wake);
end $$;

revoke all on function {schema}.add_bytes(text, bytea, text, text, integer, timestamptz, timestamptz, jsonb, uuid, boolean) from public;
revoke all on function {schema}.add(text, jsonb, text, text, integer, timestamptz, timestamptz, jsonb, uuid, boolean) from public;

-- What people look at.

create function {schema}.readable(b bytea) returns text language plpgsql immutable as $$
begin
	return convert_from(b, 'UTF8');
exception when data_exception then
	return encode(b, 'escape');
end $$;

create function {schema}.moment(us bigint) returns timestamptz language sql immutable as $$
select case when us <> {none} then timestamptz '1970-01-01 00:00:00+00' + us * interval '1 microsecond' end
$$;

create view {schema}.tasks as
select t.id, {schema}.readable(t.type) as type,
	(array['waiting', 'submitted', 'processing', 'done', 'error', 'failed', 'cancelled'])[t.state] as state,
	t.priority, {schema}.readable(t.key) as key, {schema}.readable(t.ordering_key) as ordering_key,
	{schema}.moment(t.created_at) as created_at, {schema}.moment(t.ready_at) as ready_at,
	{schema}.moment(t.next_event_at) as next_event_at, {schema}.moment(t.expires_at) as expires_at,
	{schema}.moment(t.started_at) as started_at, {schema}.moment(t.updated_at) as updated_at,
	t.attempt, t.crashes, {schema}.readable(t.error) as error,
	{schema}.readable(t.payload) as payload, {schema}.readable(t.result) as result,
	t.owner, t.shard, t.version, t.seq, t.tombstone is true as tombstone
from (
	select id, type, state, priority, key, ordering_key, created_at, ready_at, next_event_at, expires_at, started_at, updated_at,
		attempt, crashes, error, payload, result, owner, shard, version, seq, tombstone from {schema}.task
	union all
	select id, type, state, priority, key, ordering_key, created_at, ready_at, next_event_at, expires_at, started_at, updated_at,
		attempt, crashes, error, payload, result, owner, shard, version, seq, tombstone from {schema}.ended) t;
