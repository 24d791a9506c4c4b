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
select case when ordering_key is null then key else ordering_key || '\xff'::bytea || key end
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
		if t.state = 1 and t.shard >> 16 = 2 then
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
