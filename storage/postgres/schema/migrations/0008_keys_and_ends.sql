-- What a request does whose key is taken. The configuration of a type says it, and nodes write it to
-- the column uniq: {"on_conflict": "keep", "by": [["payload", MEMBER, ...], ...]}, or reject, replace or
-- debounce. Nodes of the version before leave it as it is.

alter table {schema}.type_policy add uniq jsonb not null default '{}';

-- What the request has done: created, existing, replaced or already_done.
alter type {schema}.receipt add attribute outcome text;

-- The unique key of a task that has an ordering key is unique within that: the table key has it as the
-- ordering key, the byte 255, which no text has, and the key. Nodes of the version before know of
-- (type, key) only. What they do wrong is made good by triggers, which the migration of a later
-- version may drop:
--   - what they add gets a key within its ordering key, or is an error;
--   - what they delete gives that back. Tables of ended tasks that they drop are seen to by sweepKeys
--     in Go;
--   - with what they delete they do not remove the key of another task.
-- Programs that know these keys set taskengine.keys to own.

create function {schema}.entry_of(ordering_key bytea, key bytea) returns bytea language sql immutable as $$
select case when ordering_key is null then key else ordering_key || e'\\xff'::bytea || key end
$$;

create function {schema}.key_in_order() returns trigger language plpgsql as $$
declare
	holder uuid;
begin
	insert into {schema}.key (type, key, id) values (new.type, {schema}.entry_of(new.ordering_key, new.key), new.id) on conflict do nothing;
	if not found then
		select k.id into holder from {schema}.key k where k.type = new.type and k.key = {schema}.entry_of(new.ordering_key, new.key);
		if holder <> new.id then
			raise exception 'task % has the key within its ordering key', holder using errcode = '23505', hint = 'Ask a node of the next version.';
		end if;
	end if;
	return null;
end $$;

create function {schema}.key_is_left() returns trigger language plpgsql as $$
begin
	perform set_config('taskengine.leaving', 'on', true);
	return old;
end $$;

create function {schema}.key_was_left() returns trigger language plpgsql as $$
begin
	delete from {schema}.key k where k.type = old.type and k.key = {schema}.entry_of(old.ordering_key, old.key) and k.id = old.id
		and not {schema}.is_taken(old.id);
	return null;
end $$;

create function {schema}.keep_key() returns trigger language plpgsql as $$
begin
	if {schema}.is_taken(old.id) then
		return null;
	end if;
	return old;
end $$;

create trigger key_in_order after insert on {schema}.task for each row
	when (new.key is not null and new.ordering_key is not null and current_setting('taskengine.keys', true) is distinct from 'own')
	execute function {schema}.key_in_order();
create trigger key_is_left before delete on {schema}.task for each row
	when (old.key is not null and old.ordering_key is not null and current_setting('taskengine.keys', true) is distinct from 'own')
	execute function {schema}.key_is_left();
create trigger key_is_left before delete on {schema}.ended for each row
	when (old.key is not null and old.ordering_key is not null and current_setting('taskengine.keys', true) is distinct from 'own')
	execute function {schema}.key_is_left();
create trigger key_was_left after delete on {schema}.task for each row
	when (old.key is not null and old.ordering_key is not null and current_setting('taskengine.keys', true) is distinct from 'own')
	execute function {schema}.key_was_left();
create trigger key_was_left after delete on {schema}.ended for each row
	when (old.key is not null and old.ordering_key is not null and current_setting('taskengine.keys', true) is distinct from 'own')
	execute function {schema}.key_was_left();
create trigger keep_key before delete on {schema}.key for each row
	when (current_setting('taskengine.leaving', true) = 'on') execute function {schema}.keep_key();

-- Those who change rows wait from the first trigger on until this transaction has ended.
insert into {schema}.key (type, key, id)
select t.type, {schema}.entry_of(t.ordering_key, t.key), t.id from {schema}.task t where t.key is not null and t.ordering_key is not null
union all
select e.type, {schema}.entry_of(e.ordering_key, e.key), e.id from {schema}.ended e where e.key is not null and e.ordering_key is not null;

-- put and check_home know keys within ordering keys.
create or replace function {schema}.put(r {schema}.task, fresh boolean) returns boolean language plpgsql volatile as $$
begin
	insert into {schema}.task select r.* on conflict (id) do nothing;
	if found and not fresh then -- only now nobody else can add one of this id
		delete from {schema}.task t where t.id = r.id
			and (exists (select from {schema}.ended e where e.id = r.id and e.ended_at >= {schema}.made_at(r.id))
				or exists (select from {schema}.ended e where e.id = r.id and e.keep < 0));
		if not found then
			return true;
		end if;
	elsif found then
		return true;
	end if;
	delete from {schema}.key k where k.type = r.type and k.key = {schema}.entry_of(r.ordering_key, r.key) and k.id = r.id
		and not exists (select from {schema}.task t where t.id = r.id and t.key = r.key and t.type = r.type and t.ordering_key is not distinct from r.ordering_key)
		and not exists (select from {schema}.ended e where e.id = r.id and e.key = r.key and e.type = r.type and e.ordering_key is not distinct from r.ordering_key);
	return false;
end $$;

create or replace function {schema}.check_home(key text, ordering_key text, id uuid) returns void language plpgsql stable as $$
declare
	shards bytea := (select h.here from {schema}.home h where h.here <> decode(repeat('ff', {shards} / 8), 'hex'));
begin
	if shards is null then
		return;
	elsif ordering_key <> '' then
		if get_bit(shards, {schema}.shard_of(convert_to(ordering_key, 'UTF8'))) = 0 then
			raise exception 'the tasks of this ordering key are in another database'
				using errcode = '0A000', hint = 'Add the task there, or submit it by the engine.';
		elsif {schema}.shard_of(convert_to(ordering_key, 'UTF8')) <> {schema}.shard_of(id) then
			raise exception 'the id and the ordering key of the task are of different shards, which may be in different databases'
				using errcode = '0A000', hint = 'Leave the id out, or submit the task by the engine.';
		end if;
	elsif key <> '' then
		raise exception 'this database holds only some of the tasks, and cannot see whether another has one of this key'
			using errcode = '0A000', hint = 'Leave the key out, give an ordering key, too, or submit the task by the engine.';
	elsif get_bit(shards, {schema}.shard_of(id)) = 0 then
		raise exception 'the task of this id belongs to another database'
			using errcode = '0A000', hint = 'Leave the id out, or submit the task by the engine.';
	end if;
end $$;

-- key_of returns the key of a request that has none, as the engine makes it of the places that by names;
-- null if it names none.
create function {schema}.key_of(type text, by jsonb, payload bytea, headers jsonb, ordering_key text) returns text language plpgsql immutable as $$
declare
	path   text[];
	value  text;
	packed text;
begin
	for path in select array(select m from jsonb_array_elements_text(e) with ordinality as a (m, n) order by n) from jsonb_array_elements(by) with ordinality as a (e, n) order by n loop
		case path[1]
		when 'ordering_key' then
			value := ordering_key;
		when 'headers' then
			value := headers ->> array_to_string(path[2:], '.');
		else
			begin
				value := {schema}.member_of(convert_from(coalesce(payload, ''), 'UTF8')::json, path[2:]);
			exception when data_exception then
				raise exception using errcode = '22023',
					message = format('unique.by of type %s needs %s: %s', type, array_to_string(path, '.'), sqlerrm);
			end;
		end case;
		if coalesce(value, '') = '' then
			raise exception using errcode = '22023',
				message = format('unique.by of type %s needs %s, and the request does not have it: add it, or a key', type, array_to_string(path, '.'));
		end if;
		value := replace(replace(value, e'\x1e', e'\x1e0'), e'\x1f', e'\x1e1');
		packed := case when packed is null then value else packed || e'\x1f' || value end;
	end loop;
	if octet_length(convert_to(packed, 'UTF8')) > 500 then
		raise exception using errcode = '22023',
			message = format('the key that unique.by makes has %s bytes, of 500 allowed', octet_length(convert_to(packed, 'UTF8')));
	end if;
	return packed;
end $$;

-- on_taken does what a request does whose key the task with this id has. r is the row of the request. It
-- returns the outcome, and null if there is no such task any more.
create function {schema}.on_taken(holder uuid, r {schema}.task, p {schema}.type_policy) returns text language plpgsql volatile as $$
declare
	mode   constant text := coalesce(p.uniq ->> 'on_conflict', 'keep');
	t      {schema}.task;
	starts bigint;
	until  constant bigint := nullif(r.expires_at, {none});
begin
	if p.uniq = '{}' then
		return 'existing';
	elsif mode = 'reject' then
		raise exception using errcode = 'TE002', message = format('the task exists: task %s of type %s has the key %s, and unique.on_conflict of the type is reject',
			holder, {schema}.readable(r.type), to_json({schema}.readable(r.key)));
	elsif mode in ('replace', 'debounce') then
		select * into t from {schema}.task k where k.id = holder for no key update;
	else
		select * into t from {schema}.task k where k.id = holder;
	end if;
	if not found then
		if exists (select from {schema}.ended e where e.id = holder and e.state = 4 and (e.ended_at >= {schema}.made_at(holder) or e.keep < 0)) then
			return 'already_done';
		elsif {schema}.is_taken(holder) then
			return 'existing';
		end if;
		return null;
	elsif mode not in ('replace', 'debounce') or t.state not in (1, 2) or t.started_at <> {none} then
		return 'existing';
	end if;
	if mode = 'debounce' then
		t.state := r.state;
		t.ready_at := r.ready_at;
		t.due_at := r.due_at;
		if t.shard >> 16 = 2 then
			t.shard := (t.shard & 65535) + 65536; -- it takes another seat
		end if;
	elsif t.state = 2 then
		t.due_at := least(r.created_at + nullif(p.queue_timeout, 0), until);
	else
		starts := case
			when t.next_event_at = {none} then null
			when t.next_event_at <> t.expires_at or t.ready_at = t.next_event_at then t.next_event_at
			when t.ready_at > t.next_event_at then t.ready_at end;
		t.due_at := least(starts, until);
	end if;
	update {schema}.task k set version = t.version + 1, updated_at = r.created_at, state = t.state, ready_at = t.ready_at,
		due_at = t.due_at, due_state = case when t.due_at is not null or t.state = 1 then t.state end, next_event_at = coalesce(t.due_at, {none}),
		expires_at = r.expires_at, shard = t.shard, queued = t.state = 2 and t.shard >> 16 <> 1,
		priority = r.priority, grp = r.grp, headers = r.headers, payload = r.payload, checkpoint = null
	where k.id = holder;
	return 'replaced';
end $$;

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
	done    text;
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
	if key is null and p.uniq ? 'by' then
		key := {schema}.key_of(type, p.uniq -> 'by', payload, headers, ordering_key);
	end if;
	lock table {schema}.task in row exclusive mode; -- from now on this database holds what it holds
	if fresh then
		id := {schema}.fresh_id(type, key, ordering_key);
	else
		perform {schema}.check_isolation();
	end if;
	perform {schema}.check_home(key, ordering_key, id);
	r := {schema}.row_of(id, type, payload, key, ordering_key, priority, at, expires_at, headers, p);
	while r.key is not null loop
		holder := {schema}.take_key(r.type, {schema}.entry_of(r.ordering_key, r.key), id);
		exit when holder = id;
		if not fresh and {schema}.is_taken(id) then -- that says more
			return (id, false, 'existing'::text);
		end if;
		done := {schema}.on_taken(holder, r, p);
		if done is not null then
			if done = 'replaced' then
				select * into r from {schema}.task t where t.id = holder;
				perform {schema}.wake(r) where wake;
			end if;
			return (holder, false, done);
		end if;
	end loop;
	if not {schema}.put(r, fresh) then
		return (id, false, 'existing'::text);
	end if;
	perform {schema}.wake(r) where wake;
	return (id, true, 'created'::text);
end $$;

-- wake tells the nodes at the commit of a task that is ready; of equal notifications in a transaction one is sent.
create function {schema}.wake(r {schema}.task) returns void language plpgsql volatile as $$
begin
	if r.state <> 2 then
		return;
	elsif r.shard >> 16 = 1 then
		perform pg_notify({channel}, format('k:%s:%s:%s', r.shard & 65535, encode(r.type, 'base64'), encode(r.ordering_key, 'base64')));
	else
		perform pg_notify({channel}, 'w:' || (r.shard & 65535));
	end if;
end $$;

-- A handler ends its attempt from SQL by the functions finish and again, and their forms for bytes, in
-- the transaction in which it writes its data. They do to the row what the engine does. A role needs
-- USAGE on the schema and EXECUTE on them, and no right on any table; the right to add is another one.

-- What the nodes say of types for that: 0 is a task that is not kept, -1 one that is kept for ever. Null
-- is not known: only nodes of the version before have told their types.
alter table {schema}.type_policy add max_result bigint, add keep_done bigint; -- bytes; microseconds
update {schema}.type_policy set max_result = 1048576, keep_done = 604800000000 where type = '';

-- attempt_of returns and locks the row of a running attempt. If the attempt does not count any more, it
-- raises the error TE001, which says why.
create function {schema}.attempt_of(id uuid, version bigint) returns {schema}.task language plpgsql volatile as $$
#variable_conflict use_variable
declare
	shards bytea;
	r      {schema}.task;
begin
	if id is null or version is null then
		raise exception 'id and version must be those of the task that the handler got' using errcode = '22023';
	end if;
	lock table {schema}.task in row exclusive mode; -- from now on this database holds what it holds
	select * into r from {schema}.task t where t.id = id and t.version = version and t.state = 3 for no key update;
	if found then
		if substring(r.type from 1 for 11) = convert_to('taskengine.', 'UTF8') then
			raise exception 'the task % belongs to the engine, which ends its attempts itself', id using errcode = '22023';
		end if;
		return r;
	end if;
	select h.here into shards from {schema}.home h;
	if get_bit(shards, {schema}.shard_of(id)) = 0 then
		raise exception 'the task % is in another database', id
			using errcode = '0A000', hint = 'Keep data that is written with the end of a task in the database that has the task.';
	end if;
	select * into r from {schema}.task t where t.id = id;
	if not found then
		select e.state, e.version into r.state, r.version from {schema}.ended e
		where e.id = id and (e.ended_at >= {schema}.made_at(id) or e.keep < 0) limit 1;
	end if;
	raise exception using errcode = 'TE001',
		message = format('the attempt of version %s of the task %s is over: ', version, id) || case
			when r.state is null then 'there is no such task any more'
			else format('the task is %s, at version %s', (array['waiting', 'submitted', 'processing', 'done', 'error', 'failed', 'cancelled'])[r.state], r.version)
		end,
		hint = 'Roll the transaction back: another attempt, or a change of the task, counts instead of this attempt.';
end $$;

-- rules_of returns what the nodes say of a type.
create function {schema}.rules_of(p_type bytea) returns {schema}.type_policy language plpgsql stable as $$
declare
	p {schema}.type_policy;
begin
	select * into p from {schema}.type_policy t where t.type in (p_type, '') order by t.type desc limit 1;
	if p.max_result is null or p.keep_done is null then
		raise exception 'no node has told this database for how long tasks of the type % are kept when they are done', {schema}.readable(p_type)
			using errcode = '55000', hint = 'Start a node of a version that knows this function, or end the attempt by what the handler returns.';
	end if;
	return p;
end $$;

create function {schema}.check_result(result bytea, p_type bytea, most bigint) returns void language plpgsql immutable as $$
begin
	if length(result) > most then
		raise exception using errcode = '22023',
			message = format('the result has %s bytes, and max_result of the type %s allows %s', length(result), {schema}.readable(p_type), most);
	end if;
end $$;

-- tell_key tells the nodes the ordering key of a task that has given up its seat.
create function {schema}.tell_key(r {schema}.task) returns void language plpgsql volatile as $$
begin
	if r.ordering_key is not null then
		perform pg_notify({channel}, format('k:%s:%s:%s', r.shard & 65535, encode(r.type, 'base64'), encode(r.ordering_key, 'base64')));
	end if;
end $$;

-- Where what ends belongs in the table ended.

-- class_of returns the number of the class of tasks that are kept for so many microseconds.
create function {schema}.class_of(kept bigint) returns integer language sql immutable as $$
select coalesce(
	(select min(k) from unnest(array[3600, 7200, 10800, 21600, 43200, 86400, 172800, 259200, 432000, 604800, 864000, 1209600, 1814400,
		2592000, 3888000, 5184000, 7776000, 10368000, 15552000, 23328000, 34560000]) k where kept <= k::bigint * 1000000),
	least((kept / 31536000000000 + 1) * 31536000, 2147483647)::integer)
$$;

-- part_of returns the name of the partition of parent that is called name, perhaps with an x and a
-- number, or else a name that is free for it. A transaction may not see in the catalog what others have
-- made since it began; to_regclass does.
create function {schema}.part_of(parent text, name text, out part text, out attached boolean) language plpgsql volatile as $$
declare
	other regclass;
begin
	select c.relname into part from pg_catalog.pg_class c join pg_catalog.pg_inherits i on i.inhrelid = c.oid
	where c.relnamespace = to_regnamespace({schema_literal}) and c.relname ~ ('^' || name || '(x[0-9]+)?$')
		and i.inhparent = to_regclass({schema_literal} || '.' || quote_ident(parent)) and not i.inhdetachpending;
	attached := found;
	for n in 1 .. 1000000 loop
		exit when attached;
		part := name || case n when 1 then '' else 'x' || n end;
		other := to_regclass({schema_literal} || '.' || quote_ident(part));
		exit when other is null;
		attached := coalesce(pg_partition_root(other) = to_regclass({schema_literal} || '.ended'), false);
	end loop;
end $$;

-- Tasks that have ended and whose own partition of ended is missing: nothing that ends a task makes tables, so that nobody
-- waits for them, and a task can end while nobody may make tables. The program makes those that it needs, usually before,
-- and moves these rows to them.
create table {schema}.ended_2147483646_0 (like {schema}.ended including defaults including storage);
alter table {schema}.ended attach partition {schema}.ended_2147483646_0 for values in (2147483646);

-- has_room reports whether there is the partition of ended for tasks of a class that end at a time, and has the
-- transaction see it.
create function {schema}.has_room(class integer, ended_at bigint) returns boolean language plpgsql volatile as $$
declare
	name   constant text   := 'ended_' || case when class < 0 then 'early_' else '' end || case when class = -10368001 then 0 else abs(class) end;
	since  constant bigint := {schema}.since_of(class, ended_at);
	parent record;
	part   record;
begin
	parent := {schema}.part_of('ended', name);
	if not parent.attached then
		return false;
	end if;
	part := {schema}.part_of(parent.part, name || '_' || since);
	if part.attached then
		execute format('lock table only %s.%I in access share mode', {schema_literal}, part.part);
	end if;
	return part.attached;
end $$;

-- finish_bytes ends an attempt: its task is done, if and only if the transaction commits.
--   id, version   those of the task that the handler got: they name the attempt
--   result        of the task
--   wake          whether to tell the nodes, at the commit, that the next task of the ordering key may
--                 run; else they find it within about a second
create function {schema}.finish_bytes(id uuid, version bigint, result bytea default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
	r        {schema}.task        := {schema}.attempt_of(id, version);
	p        {schema}.type_policy := {schema}.rules_of(r.type);
	now_us   constant bigint      := {schema}.microseconds(clock_timestamp());
	until    constant bigint      := case when p.keep_done < 0 then {none} else now_us + p.keep_done end;
	made     constant bigint      := {schema}.made_at(id);
	early    constant boolean     := made - 3600000000 > now_us;
	ended_at bigint               := case when early then now_us else greatest(now_us, made) end;
	class    integer              := case when p.keep_done < 0 then 0 else {schema}.class_of(until - ended_at) end;
	keys     constant text        := coalesce(current_setting('taskengine.keys', true), '');
begin
	perform {schema}.check_result(result, r.type, p.max_result);
	perform set_config('taskengine.keys', 'own', true); -- the row keeps its key while it moves
	if p.keep_done = 0 then
		delete from {schema}.task t where t.id = id;
		delete from {schema}.key k where k.type = r.type and k.key = {schema}.entry_of(r.ordering_key, r.key) and k.id = r.id;
	else
		if early then
			class := case class when 0 then -10368001 else -class end;
		end if;
		if not {schema}.has_room(class, ended_at) then
			class := 2147483646;
			ended_at := greatest(now_us, made);
		end if;
		delete from {schema}.task t where t.id = id;
		insert into {schema}.ended (id, owner, version, seq, created_at, ready_at, next_event_at, expires_at, started_at, updated_at, due_at,
			shard, attempt, crashes, state, priority, due_state, queued,
			type, grp, key, ordering_key, headers, progress, error, history, checkpoint, payload, result, ended_at, keep)
		values (id, null, version + 1, r.seq, r.created_at, r.ready_at, until, r.expires_at, r.started_at, now_us, null,
			r.shard & 65535, r.attempt, 0, 4, r.priority, null, false,
			r.type, r.grp, r.key, r.ordering_key, r.headers, r.progress, null, r.history, null, r.payload, {schema}.stored(result), ended_at, class);
	end if;
	perform set_config('taskengine.keys', keys, true);
	if wake then
		perform {schema}.tell_key(r);
	end if;
end $$;

-- finish is finish_bytes for a result in JSON.
create function {schema}.finish(id uuid, version bigint, result jsonb default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	perform {schema}.finish_bytes(id, version, convert_to(result::text, 'UTF8'), wake);
end $$;

-- When a task runs again.

-- A number of eight bytes, and a text after its length in four bytes, in a column that has several values,
-- from a byte that is counted from 1.
create function {schema}.number_in(b bytea, place integer) returns bigint language sql immutable as $$
select ('x' || encode(substring(b from place for 8), 'hex'))::bit(64)::bigint
$$;

create function {schema}.text_in(b bytea, place integer) returns bytea language sql immutable as $$
select substring(b from place + 4 for ('x' || encode(substring(b from place for 4), 'hex'))::bit(32)::integer)
$$;

-- past_of returns the attempts in a history: when they began and ended, how, and where they are in it.
create function {schema}.past_of(history bytea, out began bigint[], out ended bigint[], out outcome integer[], out places integer[]) language plpgsql immutable as $$
declare
	place integer := 1;
begin
	began := '{}';
	ended := '{}';
	outcome := '{}';
	places := '{}';
	while place <= length(history) loop
		places := places || place;
		outcome := outcome || ({schema}.number_in(history, place) & 255)::integer;
		began := began || {schema}.number_in(history, place + 8);
		ended := ended || {schema}.number_in(history, place + 16);
		place := place + 44 + length({schema}.text_in(history, place + 40));
	end loop;
end $$;

-- with_attempt returns the history of a row with the attempt that ends now, without the oldest ones if
-- it becomes too long.
create function {schema}.with_attempt(r {schema}.task, now_us bigint) returns bytea language plpgsql immutable as $$
declare
	places integer[] := (select p.places from {schema}.past_of(r.history) p);
	n      integer   := cardinality(places);
begin
	return case when n < 20 then coalesce(r.history, '') else substring(r.history from places[n - 18]) end
		|| int8send(r.attempt::bigint << 8) || int8send(r.started_at) || int8send(now_us) || uuid_send(coalesce(r.owner, '00000000-0000-0000-0000-000000000000')) || int4send(0);
end $$;

-- The minimum delay of a task that asked n times in a row to run again at once, in microseconds.
create function {schema}.rearm_delay(n integer) returns bigint language sql immutable as $$
select least(10000::bigint << least(n, 13), 60000000)
$$;

-- rearms_of returns how many attempts in a row asked to run again at once, as the engine counts them.
create function {schema}.rearms_of(began bigint[], ended bigint[], outcome integer[], started_at bigint) returns integer language plpgsql immutable as $$
declare
	n     integer := 0;
	later bigint;
	rest  bigint;
	took  bigint;
begin
	for i in 1 .. cardinality(outcome) loop
		if outcome[i] not in (0, 4) then -- it neither completed nor snoozed
			n := 0;
			continue;
		end if;
		later := coalesce(began[i + 1], started_at);
		rest := later - ended[i];
		took := later - began[i];
		if i = 1 and cardinality(outcome) = 20 then
			while {schema}.rearm_delay(n) < 60000000 and rest >= {schema}.rearm_delay(n + 1) - 1000 loop
				n := n + 1;
			end loop;
		end if;
		n := case
			when rest >= {schema}.rearm_delay(n) - 1000 and took < 2 * {schema}.rearm_delay(n) + 50000 then n + 1
			when rest >= {schema}.rearm_delay(0) - 1000 and took < 2 * {schema}.rearm_delay(0) + 50000 then 1
			else 0
		end;
	end loop;
	return n;
end $$;

-- next_run returns when a task becomes due whose handler asks to run again at a time.
create function {schema}.next_run(r {schema}.task, at_us bigint, now_us bigint) returns bigint language plpgsql immutable as $$
declare
	past record  := {schema}.past_of(r.history);
	last integer := cardinality(past.outcome);
	n    integer := {schema}.rearms_of(past.began, past.ended, past.outcome, r.started_at);
	lag  bigint  := case when past.outcome[last] = 0 then past.ended[last] - r.ready_at else 0 end;
begin
	if lag - (now_us - at_us) >= 1000000 then -- it catches up with its times
		n := 0;
	end if;
	return greatest(at_us, now_us + {schema}.rearm_delay(n));
end $$;

-- header_of returns the text of a header of a row.
create function {schema}.header_of(headers bytea, name text) returns text language plpgsql immutable as $$
declare
	wanted constant bytea := convert_to(name, 'UTF8');
	header bytea;
	value  bytea;
	place  integer := 1;
begin
	while place <= length(headers) loop
		header := {schema}.text_in(headers, place);
		place := place + 4 + length(header);
		value := {schema}.text_in(headers, place);
		place := place + 4 + length(value);
		if header = wanted then
			return convert_from(value, 'UTF8');
		end if;
	end loop;
	return null;
end $$;

-- group_with returns the group of a row with another payload.
create function {schema}.group_with(r {schema}.task, payload bytea, keyed jsonb) returns bytea language plpgsql immutable as $$
declare
	path    text[];
	headers jsonb := '{}';
	key     text;
	ordered text;
begin
	for path in select array(select e from jsonb_array_elements_text(k -> 'path') with ordinality as a (e, n) order by n) from jsonb_array_elements(keyed) k loop
		case path[1]
		when 'headers' then
			headers := headers || jsonb_build_object(array_to_string(path[2:], '.'), {schema}.header_of(r.headers, array_to_string(path[2:], '.')));
		when 'key' then
			key := convert_from(r.key, 'UTF8');
		when 'ordering_key' then
			ordered := convert_from(r.ordering_key, 'UTF8');
		else
		end case;
	end loop;
	return {schema}.group_of(keyed, payload, headers, key, ordered);
end $$;

-- again_bytes ends an attempt and has its task run again, if and only if the transaction commits. The
-- count of attempts starts again.
--   id, version   those of the task that the handler got: they name the attempt
--   at            when the task runs again
--   payload       null to keep the one that it has
--   checkpoint    null for none
--   result        of this attempt
--   wake          as in finish_bytes
create function {schema}.again_bytes(id uuid, version bigint, at timestamptz, payload bytea default null, checkpoint bytea default null,
	result bytea default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
	r      {schema}.task        := {schema}.attempt_of(id, version);
	p      {schema}.type_policy := {schema}.rules_of(r.type);
	now_us constant bigint      := {schema}.microseconds(clock_timestamp());
	due    bigint;
begin
	perform {schema}.check_result(result, r.type, p.max_result);
	if at is null then
		raise exception 'at is missing: the function finish has a task done' using errcode = '22023';
	elsif at not between timestamptz '1970-01-01 00:00:00 UTC' and timestamptz '9999-12-31 23:59:59.999999 UTC' then
		raise exception 'at must lie between the years 1970 and 9999' using errcode = '22023';
	elsif length(payload) > p.max_payload then
		raise exception using errcode = '22023', message = format('payload has %s bytes, of %s allowed by max_payload of type %s', length(payload), p.max_payload, {schema}.readable(r.type));
	elsif length(checkpoint) > 1048576 then
		raise exception using errcode = '22023', message = format('checkpoint has %s bytes, of 1048576 allowed', length(checkpoint));
	end if;
	due := {schema}.next_run(r, {schema}.microseconds(at), now_us);
	update {schema}.task t set
		version = version + 1, state = 1, owner = null, queued = false, attempt = 0, crashes = 0,
		ready_at = case when r.shard >> 16 = 0 then {schema}.microseconds(at) else due end, -- one that holds back others is ready when it is due
		next_event_at = due, due_at = due, due_state = 1, expires_at = {none}, updated_at = now_us,
		shard = case when r.shard >> 16 = 0 then r.shard else 65536 + (r.shard & 65535) end,
		history = {schema}.with_attempt(r, now_us), checkpoint = {schema}.stored(checkpoint), result = {schema}.stored(result),
		payload = case when payload is null then t.payload else {schema}.stored(payload) end,
		grp = case when payload is null then t.grp else {schema}.group_with(r, payload, p.keyed) end
	where t.id = id;
	if wake then
		perform {schema}.tell_key(r);
	end if;
end $$;

-- again is again_bytes for JSON.
create function {schema}.again(id uuid, version bigint, at timestamptz, payload jsonb default null, checkpoint jsonb default null,
	result jsonb default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp as $$
begin
	perform {schema}.again_bytes(id, version, at, convert_to(payload::text, 'UTF8'), convert_to(checkpoint::text, 'UTF8'), convert_to(result::text, 'UTF8'), wake);
end $$;

revoke all on function {schema}.finish_bytes(uuid, bigint, bytea, boolean) from public;
revoke all on function {schema}.finish(uuid, bigint, jsonb, boolean) from public;
revoke all on function {schema}.again_bytes(uuid, bigint, timestamptz, bytea, bytea, bytea, boolean) from public;
revoke all on function {schema}.again(uuid, bigint, timestamptz, jsonb, jsonb, jsonb, boolean) from public;
