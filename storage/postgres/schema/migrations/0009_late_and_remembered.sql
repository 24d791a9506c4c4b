-- How far in the past the time of a task may lie that is added; 0 is no limit. Nodes of the version
-- before leave it as it is.
alter table {schema}.type_policy add max_lateness bigint not null default 0; -- microseconds

-- For how long the key of a task is taken that is done, if that is longer than keep_done; 0 is not longer.
alter table {schema}.type_policy add remember bigint not null default 0; -- microseconds

-- check_late raises the error TE003 if the time of a new row lies too far in the past.
create function {schema}.check_late(r {schema}.task, p {schema}.type_policy) returns void language plpgsql stable as $$
begin
	if p.max_lateness > 0 and r.created_at - r.ready_at > p.max_lateness then
		raise exception using errcode = 'TE003',
			message = format('the request is too late: its time, %s, lies more than %s s in the past, which is max_lateness of type %s; submit it with a later time, or without one',
				to_char(timestamp '1970-01-01' + r.ready_at * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), trim_scale(p.max_lateness / 1000000.0), {schema}.readable(r.type));
	end if;
end $$;

-- A late request whose key is taken is not refused, unless it would move the task into the past.
create or replace function {schema}.on_taken(holder uuid, r {schema}.task, p {schema}.type_policy) returns text language plpgsql volatile as $$
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
		perform {schema}.check_late(r, p);
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

-- A late request whose id or key is taken was perhaps made before, in time.
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
	perform {schema}.check_late(r, p);
	perform {schema}.wake(r) where wake;
	return (id, true, 'created'::text);
end $$;

-- A task with a key that is not kept leaves a tombstone if its type remembers keys.
create or replace function {schema}.finish_bytes(id uuid, version bigint, result bytea default null, wake boolean default true) returns void language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
	r        {schema}.task        := {schema}.attempt_of(id, version);
	p        {schema}.type_policy := {schema}.rules_of(r.type);
	now_us   constant bigint      := {schema}.microseconds(clock_timestamp());
	forgets  constant boolean     := p.keep_done = 0 and p.remember > 0 and r.key is not null;
	until    constant bigint      := case when forgets then now_us + p.remember when p.keep_done < 0 then {none} else now_us + p.keep_done end;
	made     constant bigint      := {schema}.made_at(id);
	early    constant boolean     := made - 3600000000 > now_us;
	ended_at bigint               := case when early then now_us else greatest(now_us, made) end;
	class    integer              := case when p.keep_done < 0 then 0 else {schema}.class_of(until - ended_at) end;
	keys     constant text        := coalesce(current_setting('taskengine.keys', true), '');
begin
	perform {schema}.check_result(result, r.type, p.max_result);
	perform set_config('taskengine.keys', 'own', true); -- the row keeps its key while it moves
	if forgets then
		r.headers := null;
		r.progress := null;
		r.history := null;
		r.payload := null;
		result := null;
	end if;
	if p.keep_done = 0 and not forgets then
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
			shard, attempt, crashes, state, priority, due_state, queued, tombstone,
			type, grp, key, ordering_key, headers, progress, error, history, checkpoint, payload, result, ended_at, keep)
		values (id, null, version + 1, r.seq, r.created_at, r.ready_at, until, r.expires_at, r.started_at, now_us, null,
			r.shard & 65535, r.attempt, 0, 4, r.priority, null, false, nullif(forgets, false),
			r.type, r.grp, r.key, r.ordering_key, r.headers, r.progress, null, r.history, null, r.payload, {schema}.stored(result), ended_at, class);
	end if;
	perform set_config('taskengine.keys', keys, true);
	if wake then
		perform {schema}.tell_key(r);
	end if;
end $$;
